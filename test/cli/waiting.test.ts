/** What is said while nothing comes, when the time is over, and of a response that has not ended. */
import { expect, test } from "vitest";
import { startUpstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { home } from "./run.ts";

async function endpoint(script: UpstreamScript) {
  const started = await startUpstream(script);
  later(() => started.close());
  const flags = ["--api-base-url", started.url, "--api-key", "test-key-123456", "--model", "test-model"];
  return { flags, host: new URL(started.url).host };
}

test("a silent endpoint is named, once, without a terminal too; Ctrl-C still cancels", {
  timeout: 30_000,
}, async () => {
  const { flags, host } = await endpoint([{ silent: "hang" }]);
  for (const format of ["text", "json"]) {
    const chat = home().start(["chat", ...flags, "--output-format", format, "go"]);
    await expect.poll(chat.err, { timeout: 20_000 }).toBe(`waiting for ${host} to answer …\n`);
    chat.child.kill("SIGINT");
    const { code, err } = await chat.result;
    expect(code).toBe(130);
    expect(err.split("waiting for")).toHaveLength(2);
  }
});

test("the time is over: whom it waited for, and how to ask again", async () => {
  const { run } = home();
  const { flags, host } = await endpoint([{ silent: "hang" }]);
  const alone = await run(["chat", ...flags, "--timeout", "0.5", "go"]);
  expect(alone).toMatchObject({ code: 124, out: "" });
  expect(alone.err).toContain(`[incomplete: max_time, after 0.5 s; it was waiting for ${host} to answer]`);
  expect(alone.err).toMatch(/\(incomplete; ask again with: rotunda chat --timeout 60 "…"\)\n$/);
  const begun = await endpoint([{ text: ["half "], break: "hang" }]);
  const half = await run(["chat", ...begun.flags, "--timeout", "2", "go"]);
  expect(half.code).toBe(124);
  expect(half.err).toMatch(/\(incomplete; go on with: rotunda chat --from \w{8} --timeout 60 "…"\)\n$/);
});

test("what is being answered elsewhere is called so, and what was interrupted too", async () => {
  const { run, start } = home();
  const { flags } = await endpoint([{ text: ["half "], break: "hang" }]);
  const first = start(["chat", ...flags, "--conversation", "race", "a"]);
  await expect.poll(first.out, { timeout: 20_000 }).toContain("half");
  const second = await run(["chat", ...flags, "--conversation", "race", "b"]);
  expect([second.code, second.out]).toEqual([1, ""]);
  expect(second.err).toMatch(/resp_\w+ is just being answered by another process/);
  expect(second.err).toMatch(/rotunda log --follow \w{8}, or end it: rotunda cancel \w{8}/);
  expect(second.err).not.toContain("rotunda resume");
  first.child.kill("SIGTERM");
  await first.result;
  const third = await run(["chat", ...flags, "--continue", "b"]);
  expect(third.err).toMatch(/resp_\w+ was interrupted\n {2}Go on with it first: rotunda resume \w{8}, or end it/);
  expect((await run(["log"])).out).toContain("interrupted (rotunda resume)");
});

test("what waits for a person is called so", async () => {
  const { run } = home();
  await run(["chat", "--conversation", "notes", "write notes.txt with hello"]);
  const { code, err } = await run(["chat", "--conversation", "notes", "b"]);
  expect(code).toBe(1);
  expect(err).toMatch(
    /waits for a person's answer\n {2}See what it asks: rotunda approvals, or end it: rotunda cancel/,
  );
});
