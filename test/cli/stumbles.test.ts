/** What the command line says where something is not as whoever typed it thought. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { type Home, home } from "./run.ts";

async function placeWith(...answers: Parameters<typeof startUpstream>[0] & unknown[]): Promise<Home> {
  const upstream = await startUpstream(answers);
  later(() => upstream.close());
  const place = home();
  const model = { id: "main", baseUrl: upstream.url, model: "test", retries: 0 };
  writeFileSync(join(place.workspace, "rotunda.json"), JSON.stringify({ models: [model] }));
  return place;
}

const idOf = (out: string) => (JSON.parse(out) as { response_id: string }).response_id;

test("a failed turn with nothing said offers what it went on from, or nothing", async () => {
  const place = await placeWith({ text: "hello" }, { status: 400, body: { error: { message: "no" } } });
  const first = await place.run(["chat", "--output-format", "json", "one"]);
  const failed = await place.run(["chat", "--continue", "two"]);
  expect(failed.code).not.toBe(0);
  expect(failed.err).toContain(`(failed; go on with: rotunda chat --from ${idOf(first.out).slice(-8)} "…")`);
  const alone = await place.run(["chat", "three"]);
  expect(alone.err).toMatch(/Response ID: resp_\w+ \(failed\)\n$/);
});

test("a response that was deleted is called so, by any part of its id", async () => {
  const place = await placeWith({ text: "hello" });
  const id = idOf((await place.run(["chat", "--output-format", "json", "one"])).out);
  const { DatabaseSync } = await import("node:sqlite");
  const db = new DatabaseSync(join(place.environment.ROTUNDA_HOME ?? "", "rotunda.db"));
  db.exec("UPDATE responses SET deleted_at = 1893456000000");
  db.close();
  for (const part of [id, id.slice(-8), id.slice(5, 25), id.slice(0, 25)]) {
    const { code, err } = await place.run(["show", part]);
    expect([code, err]).toEqual([2, `rotunda: response ${id} was deleted on 2030-01-01\n`]);
  }
  expect((await place.run(["show", `resp_${"0".repeat(26)}`])).err).toContain("there is no response");
});

test("the log names the directory of what was said elsewhere, and a total belongs to its tree", async () => {
  const place = await placeWith({ text: "hello" });
  await place.run(["chat", "one"]);
  await place.run(["chat", "--continue", "two"]);
  const elsewhere = join(place.workspace, "..", "elsewhere");
  mkdirSync(elsewhere);
  const { spawnSync } = await import("node:child_process");
  const { BIN } = await import("./run.ts");
  const { stdout } = spawnSync(process.execPath, [BIN, "log"], {
    cwd: elsewhere,
    env: place.environment,
    encoding: "utf8",
  });
  const [root, child, total] = stdout.split("\n");
  expect(root).toMatch(/"one".*in .*work$/);
  expect(child).toMatch(/^ {4}\w+ .*"two"(?!.* in \/)/);
  expect(total).toMatch(/^ {4}in all: /);
  expect((await place.run(["log"])).out).not.toContain(place.workspace);
});

test("counts of one are singular", async () => {
  const place = await placeWith({ text: "hello" });
  await place.run(["chat", "--conversation", "work", "one"]);
  expect((await place.run(["doctor"])).out).toContain("1 response and 1 conversation are");
  expect((await place.run(["prune", "--older-than", "1m", "--dry-run"])).err).toContain("0 responses, 0 conversations");
  expect((await place.run(["export", "--output", "all.jsonl"])).err).toContain("1 response, 1 conversation");
});

test("seconds are a length of time for what is scheduled soon and for what is deleted", async () => {
  const place = await placeWith({ text: "hello" });
  await place.run(["chat", "one"]);
  await expect
    .poll(async () => (await place.run(["prune", "--older-than", "1s", "--dry-run"])).err, { timeout: 20_000 })
    .toBe("Would be deleted: 1 response, 1 conversation.\n");
  expect((await place.run(["prune", "--older-than", "0s"])).err).toContain("Write a number and s, m, h, d, w or y");
  expect((await place.run(["schedule", "add", "soon", "--in", "30s", "hello"])).code).toBe(0);
});

test("log takes a conversation's name; a word that names nothing is said to", async () => {
  const place = await placeWith({ text: "hello" });
  const id = idOf((await place.run(["chat", "--output-format", "json", "--conversation", "c1", "one"])).out);
  await place.run(["chat", "two"]);
  const { out } = await place.run(["log", "c1"]);
  expect(out).toMatch(new RegExp(`^\\* ${id.slice(-8)} .*"one".*just now {2}\\[c1\\]\n$`));
  expect(await place.run(["log", "c2"])).toMatchObject({
    code: 2,
    err: "rotunda: there is no conversation and no response c2\n",
  });
});
