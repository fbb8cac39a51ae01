/** The examples run, as a reader would run them: with the built package, by its name or as a server. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { later, temporaryFolder } from "../support.ts";

const ROOT = join(import.meta.dirname, "..", "..");

test("N23 examples/library.ts: a tool, a model, events, a logger, branches, chat with a history", () => {
  const home = temporaryFolder();
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "examples", "library.ts")], {
    cwd: home,
    encoding: "utf8",
    env: { PATH: process.env.PATH, HOME: home },
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  expect(lines).toContain("news: counting teapots");
  expect(lines).toContainEqual(expect.stringMatching(/^event \d+: mcp_call$/));
  expect(lines.slice(-4)).toEqual([
    "answer: There are 12 teapots.",
    "status: completed, model calls: 2",
    "branches: true",
    "chat: I was told 1 things so far. (4 messages)",
  ]);
});

/** A server in a home of its own, with nothing configured: the demo model answers. */
async function serve(home: string, port = 0): Promise<{ child: ChildProcess; port: number }> {
  const workspace = join(home, "workspace");
  mkdirSync(workspace, { recursive: true });
  writeFileSync(join(workspace, "cart.js"), "// TODO: discounts\n");
  const program = join(ROOT, "bin", "rotunda.js");
  const child = spawn(process.execPath, [program, "serve", "--quiet", "--port", String(port)], {
    cwd: workspace,
    env: { PATH: process.env.PATH, HOME: home },
    stdio: ["ignore", "pipe", "ignore"],
  });
  later(() => void child.kill("SIGKILL"));
  let said = "";
  for await (const part of child.stdout ?? []) {
    said += String(part);
    const [, found] = /Rotunda listening on http:.*:(\d+)\n/.exec(said) ?? [];
    if (found) return { child, port: Number(found) };
  }
  throw new Error(`the server did not start: ${said}`);
}

interface Program {
  done: Promise<{ status: number | null; stdout: string; stderr: string }>;
  /** Resolves when this stands on stderr, or the program has ended. */
  says(text: string): Promise<void>;
}

function example(home: string, port: number, name: string, ...words: string[]): Program {
  const token = readFileSync(join(home, ".local", "state", "rotunda", "token"), "utf8").trim();
  const env = { PATH: process.env.PATH, OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: token };
  const child = spawn(process.execPath, [join(ROOT, "examples", name), ...words], { env });
  later(() => void child.kill("SIGKILL"));
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const closed = once(child, "close");
  return {
    done: closed.then(([status]) => ({ status: status as number | null, stdout, stderr })),
    says: (text) =>
      new Promise((resolve) => {
        child.stderr.on("data", () => stderr.includes(text) && resolve());
        closed.then(() => resolve(), resolve);
      }),
  };
}

test("examples/resumable-stream.ts: loses its connections and its server, and no event", async () => {
  const home = temporaryFolder();
  const { child, port } = await serve(home);
  const program = example(home, port, "resumable-stream.ts", "Read cart.js");
  await program.says("hung up after event 9");
  const killed = once(child, "exit");
  child.kill("SIGKILL");
  await killed;
  await serve(home, port);
  const { status, stdout, stderr } = await program.done;
  expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining("hung up after event 9\n") });
  expect(stdout).toContain("`cart.js` has 1 line.");
  const [, events = "", connections = ""] = /(\d+) events over (\d+) connections, none lost\n$/.exec(stdout) ?? [];
  expect(Number(events)).toBeGreaterThan(20);
  // One for every ten events, and perhaps one that the crash cut.
  expect(Number(connections)).toBeGreaterThan(Number(events) / 10);
});

test("examples/approvals.ts: asks, is answered, writes what was allowed and nothing else", async () => {
  const home = temporaryFolder();
  const { port } = await serve(home);
  const { status, stdout, stderr } = await example(home, port, "approvals.ts").done;
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toContain("write notes/today.txt: allowed\n");
  expect(stdout).toContain("Successfully wrote");
  expect(stdout).toContain("write cart.js: refused\n");
  expect(readdirSync(join(home, "workspace", "notes"))).toEqual(["today.txt"]);
  expect(readFileSync(join(home, "workspace", "cart.js"), "utf8")).toBe("// TODO: discounts\n");
});
