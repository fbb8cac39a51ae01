/**
 * A real client of the protocol, acpx, against `rotunda acp`. Opt-in: install `acpx` somewhere and set
 * ROTUNDA_TEST_ACPX to its program (`node_modules/.bin/acpx`).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { later } from "../support.ts";
import { type Place, place, rotunda, until } from "./client.ts";

const acpx = process.env.ROTUNDA_TEST_ACPX ?? "";
const SKIPPED = "SKIPPED: set ROTUNDA_TEST_ACPX to an acpx program";
const LONG = { timeout: 90_000 };
const AGENT = `${process.execPath} ${join(import.meta.dirname, "..", "..", "bin", "rotunda.js")} acp`;
const write = { name: "write", arguments: { file_path: "a.txt", content: "made\n" } };

function run(at: Place, ...args: string[]) {
  // Its own process for a session ends one second after the last prompt.
  const flags = ["--cwd", at.workspace, "--ttl", "1", "--agent", AGENT];
  const child = spawn(acpx, [...flags, ...args], { cwd: at.workspace, env: at.environment, detached: true });
  later(() => {
    try {
      process.kill(-(child.pid ?? 0), "SIGKILL");
    } catch {
      // It has ended with all its children.
    }
  });
  child.stdin.end();
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const ended = once(child, "exit").then(([code]) => ({ code: code as number | null, out, err }));
  return { ended, out: () => out };
}

test.skipIf(!existsSync(acpx))(`acpx: a new session, a tool, a permission (${SKIPPED})`, LONG, async () => {
  const at = await place([{ calls: [write] }, { text: "All done." }]);
  const { code, out } = await run(at, "--approve-all", "exec", "Make a file").ended;
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining("All done.") });
  expect(out).toContain("Write a.txt (completed)");
  expect(out).toContain("[done] end_turn");
  expect(readFileSync(join(at.workspace, "a.txt"), "utf8")).toBe("made\n");
});

test.skipIf(!existsSync(acpx))(`acpx: a permission that is refused (${SKIPPED})`, LONG, async () => {
  const at = await place([{ calls: [write] }, { text: "Then not." }]);
  const { out } = await run(at, "--deny-all", "exec", "Make a file").ended;
  expect(out).toContain("Then not.");
  expect(existsSync(join(at.workspace, "a.txt"))).toBe(false);
});

test.skipIf(!existsSync(acpx))(`acpx: a session is taken up by another process (${SKIPPED})`, LONG, async () => {
  const at = await place([{ text: "First answer." }, { text: "Second answer." }]);
  expect((await run(at, "sessions", "new").ended).code).toBe(0);
  expect((await run(at, "prompt", "First").ended).out).toContain("First answer.");
  await rotunda(at, ["chat", "--continue", "At the terminal"]);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const { code, out } = await run(at, "prompt", "Third").ended;
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining("Second answer.") });
  const messages = JSON.stringify(at.upstream.requests.at(-1)?.body.messages);
  for (const text of ["First", "First answer.", "At the terminal", "Third"]) expect(messages).toContain(text);
});

test.skipIf(!existsSync(acpx))(`acpx: cancel, and the session lives on (${SKIPPED})`, LONG, async () => {
  const at = await place([{ text: ["Once ", "upon "], break: "hang" }, { text: "Yes." }]);
  await run(at, "sessions", "new").ended;
  const prompt = run(at, "prompt", "Tell");
  await until(() => prompt.out().includes("upon"));
  expect((await run(at, "cancel").ended).out).toContain("cancel");
  expect((await prompt.ended).out).toContain("[done] cancelled");
  expect(await at.upstream.requests[0]?.gone).toBe(true);
  expect((await run(at, "prompt", "Are you there?").ended).out).toContain("Yes.");
});
