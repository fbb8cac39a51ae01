/** `rotunda budget`, `prune`, `keep`: through the real program. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { type Home, home } from "./run.ts";

async function priced(): Promise<Home> {
  const upstream = await startUpstream([{ text: "hello" }]);
  later(() => upstream.close());
  const place = home();
  const model = { id: "main", baseUrl: upstream.url, model: "test", price: { input: 100_000, output: 0 } };
  writeFileSync(join(place.workspace, "rotunda.json"), JSON.stringify({ models: [model] }));
  return place;
}

test("a turn beyond a budget exits 4 and names the way on; raised, it goes on", async () => {
  const place = await priced();
  expect((await place.run(["budget"])).err).toContain("No budget is in use");
  expect((await place.run(["budget", "set", "profile/general"])).code).toBe(2);
  expect((await place.run(["budget", "set", "nonsense", "--cost", "1"])).err).toContain("names nothing");
  expect((await place.run(["budget", "set", "profile/general", "--cost", "0.5", "--per", "day"])).code).toBe(0);
  expect((await place.run(["chat", "one"])).code).toBe(0);
  const refused = await place.run(["chat", "two"]);
  expect(refused.code).toBe(4);
  expect(refused.err).toContain("the budget of profile/general is used up: $1 of $0.5 a day");
  const id = /rotunda resume (\w+)/.exec(refused.err)?.[1] ?? "";
  expect((await place.run(["budget"])).out).toBe("profile/general  $1 of $0.5 per day\n");
  expect((await place.run(["resume", id])).code).toBe(4);
  expect((await place.run(["budget", "set", "profile/general", "--cost", "5"])).err).toContain(`rotunda resume ${id}`);
  expect(await place.run(["resume", id])).toMatchObject({ code: 0, out: "hello\n" });
  expect((await place.run(["log"])).out).toContain("$1");
  expect((await place.run(["budget", "remove", "profile/general"])).code).toBe(0);
  expect((await place.run(["budget", "remove", "profile/general"])).code).toBe(2);
});

test("prune counts first, keep protects a conversation, and what is deleted is gone", async () => {
  const place = await priced();
  await place.run(["chat", "one"]);
  await place.run(["chat", "--conversation", "work", "two"]);
  expect((await place.run(["keep", "work", "for ever"])).code).toBe(2);
  expect((await place.run(["keep", "work", "forever"])).err).toContain("work is kept forever");
  expect((await place.run(["prune", "--older-than", "1y", "--json"])).out).toBe('{"deleted":0,"conversations":0}\n');
  expect((await place.run(["prune", "--older-than", "soon"])).code).toBe(2);
  expect((await place.run(["prune", "--json"])).out).toBe('{"deleted":0,"conversations":0}\n');
});

test("a budget keeps its period, warns of a name that nobody has, and shows whose token it is for", async () => {
  const place = await priced();
  const set = async (...words: string[]) => (await place.run(["budget", "set", ...words])).err;
  expect(await set("profile/general", "--cost", "5", "--per", "day")).toBe("Set: profile/general  $5 per day\n");
  expect(await set("profile/general", "--tokens", "200000")).toBe("Set: profile/general  200,000 tokens per day\n");
  expect(await set("profile/general", "--tokens", "1", "--per", "total")).toContain("1 token in all");
  for (const key of ["profile/nope", "model/nope", "token/nope"]) {
    const { code, err } = await place.run(["budget", "set", key, "--cost", "1"]);
    expect([code, err]).toEqual([0, expect.stringContaining(`Warning: there is no ${key.replace("/", " ")} now`)]);
    expect(err).toContain(`Set: ${key}`);
  }
  await place.run(["token", "add", "phone"]);
  expect(await set("token/phone", "--cost", "1")).not.toContain("Warning");
  expect((await place.run(["budget"])).out).toMatch(/^token\/\w+ phone {2}\$0 of \$1$/m);
  await place.run(["token", "revoke", "phone"]);
  expect((await place.run(["budget"])).out).toMatch(/^token\/\w+ phone \(revoked\) {2}\$0 of \$1$/m);
});

test("a conversation that there is not is called so, and a keep of seconds is none", async () => {
  const place = await priced();
  await place.run(["chat", "--conversation", "bird", "one"]);
  for (const name of ["nobird", "bird2", "no bird"]) {
    const { code, err } = await place.run(["keep", name, "3d"]);
    expect([code, err]).toEqual([2, `rotunda: there is no conversation ${name}\n`]);
  }
  expect((await place.run(["keep", "bird", "30s"])).err).toContain("is no length of time");
  expect((await place.run(["keep", "bird", "3d"])).code).toBe(0);
});

test("one that waits for a budget goes on where a server runs, and that is said of one", async () => {
  const place = await priced();
  await place.run(["budget", "set", "profile/general", "--cost", "0.5"]);
  await place.run(["chat", "one"]);
  expect((await place.run(["chat", "two"])).code).toBe(4);
  const server = place.start(["serve", "--port", "0", "--quiet"]);
  later(() => void server.child.kill("SIGKILL"));
  await expect.poll(server.out, { timeout: 20_000 }).toContain("listening on");
  // Else it may have gone on with it before that can be said.
  server.child.kill("SIGSTOP");
  expect((await place.run(["budget", "set", "profile/general", "--cost", "5"])).err).toContain(
    "\nOne response that waits for it goes on in the server.\n",
  );
});
