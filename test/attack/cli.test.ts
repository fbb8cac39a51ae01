/** Attacks on the program: escapes on the terminal, signals, what resume leaves out. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { BIN, home } from "../cli/run.ts";
import { later } from "../support.ts";

async function place(script: Parameters<typeof startUpstream>[0]) {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  return home({ OPENAI_API_KEY: "sk-test-1234567", OPENAI_BASE_URL: upstream.url, OPENAI_MODEL: "m" });
}
const write = { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] };
const ids = (json: string) => (JSON.parse(json) as { id: string }[]).map(({ id }) => id);

test("a tool's name from the model does not reach the terminal as it is", async () => {
  const one = await place([{ calls: [{ name: "evil\u001b]0;PWNED\u0007", arguments: {} }] }, { text: "done" }]);
  const { err } = await one.run(["chat", "hello"]);
  expect(err).not.toContain("\u001b");
});

test("a model's id from a project file does not reach the terminal as it is", async () => {
  const one = home();
  writeFileSync(
    join(one.workspace, "rotunda.json"),
    JSON.stringify({ models: [{ id: "m\u001b]0;PWN\u0007", baseUrl: "http://127.0.0.1:9/v1", retries: 0 }] }),
  );
  await one.run(["chat", "hello"]);
  expect((await one.run(["log"])).out).not.toContain("\u001b");
  expect((await one.run(["config", "show", "--origin"])).out).not.toContain("\u001b");
});

test("a server's name does not reach the terminal as it is", async () => {
  const one = home();
  writeFileSync(
    join(one.workspace, ".mcp.json"),
    JSON.stringify({ mcpServers: { "s\u001b]0;PWN\u0007": { command: "false" } } }),
  );
  await one.run(["trust", "--yes"]);
  expect.soft((await one.run(["trust", "--list"])).out).not.toContain("\u001b");
  expect.soft((await one.run(["hub", "list"])).out).not.toContain("\u001b");
  expect.soft((await one.run(["chat", "--verbose", "hi"])).err).not.toContain("\u001b");
});

test("resume without an id finds a response whose question was answered with --no-resume", async () => {
  const one = await place([write, { text: "done" }]);
  expect((await one.run(["chat", "hello"])).code).toBe(3);
  const [id] = ids((await one.run(["approvals", "--json"])).out);
  await one.run(["approve", "--no-resume", id ?? ""]);
  expect((await one.run(["resume"])).out).toContain("done");
});

test("SIGTERM ends `rotunda resume` of several responses, with 143", async () => {
  const one = await place(() => ({ silent: "hang" }) as const);
  for (let n = 0; n < 2; n++) {
    const started = one.start(["chat", `question ${n}`]);
    await expect
      .poll(async () => (await one.run(["log"])).out.includes(`question ${n}`), { timeout: 10_000 })
      .toBe(true);
    started.child.kill("SIGKILL");
    await started.result;
  }
  const resumed = one.start(["resume"]);
  await expect.poll(resumed.err, { timeout: 10_000 }).toContain("Going on with");
  resumed.child.kill("SIGTERM");
  const ended = await Promise.race([
    resumed.result,
    new Promise((resolve) => setTimeout(() => resolve("still alive"), 3_000)),
  ]);
  resumed.child.kill("SIGKILL");
  expect(ended).toMatchObject({ code: 143 });
});

test("a pipe that closes early does not hide that the turn did not end", async () => {
  const one = await place(() => ({ text: Array.from({ length: 30 }, (_, n) => `line ${n}\n`), delay: 30 }));
  const piped = spawn("sh", ["-c", `"${process.execPath}" "${BIN}" chat hello | head -1`], {
    cwd: one.workspace,
    env: one.environment,
    stdio: "ignore",
  });
  await once(piped, "close");
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect((await one.run(["log"])).out).not.toContain("in_progress");
});

test("keys typed before a question do not answer it", async () => {
  const one = await place([{ ...write, latency: 1_000 }, { text: "done" }]);
  // `script` gives the program a terminal; the line is there before the question.
  const typed = spawn(
    "sh",
    ["-c", `(sleep 0.5; echo y; sleep 4) | script -qec '"${process.execPath}" "${BIN}" chat hello' /dev/null`],
    { cwd: one.workspace, env: { ...one.environment, SHELL: "/bin/sh" }, stdio: "ignore" },
  );
  await once(typed, "close");
  expect((await one.run(["log"])).out).not.toContain("completed");
});

test(".env: the repository's own folder does not become the user's configuration", async () => {
  const one = home();
  mkdirSync(join(one.workspace, "x", "rotunda"), { recursive: true });
  writeFileSync(join(one.workspace, "x", "rotunda", "rotunda.yaml"), 'hooks: {onResponseStart: ["touch PWNED"]}\n');
  writeFileSync(join(one.workspace, ".env"), "XDG_CONFIG_HOME=x\n");
  await one.run(["chat", "hello"]);
  expect(spawnSync("ls", [one.workspace], { encoding: "utf8" }).stdout).not.toContain("PWNED");
});
