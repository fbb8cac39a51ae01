/**
 * `npm run conformance`: the official conformance suite of MCP, against the server, the gateway and the client.
 *
 *   node scripts/conformance.ts                  everything
 *   node scripts/conformance.ts server gateway   some of it
 *
 * Invariant: one table on stdout, details of what failed on stderr; exit code 1 where a scenario failed that a revision
 * requires, or where a part could not be run at all. Nothing counts as passed that did not run.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config/load.ts";
import { createHttpDoor } from "../src/doors/http/server.ts";
import { createMcpEndpoints } from "../src/doors/mcp/endpoints.ts";

const REVISIONS = ["2025-11-25", "2026-07-28"];
const require = createRequire(import.meta.url);
const SUITE = require.resolve("@modelcontextprotocol/conformance/dist/index.js");
const PARTS = ["server", "gateway", "client"];

interface Outcome {
  part: string;
  revision: string;
  /** Scenarios that the revision requires. */
  passed: number;
  failed: string[];
  /** Those that it does not. */
  beside: { passed: number; failed: number };
}

const folder = mkdtempSync(join(tmpdir(), "rotunda-conformance-"));
const asked = process.argv.slice(2);
const unknown = asked.filter((part) => !PARTS.includes(part));
if (unknown.length > 0) throw new Error(`there is no part ${unknown.join(", ")}; there are ${PARTS.join(", ")}`);
const wanted = (part: string) => asked.length === 0 || asked.includes(part);

async function output(args: string[]): Promise<string> {
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
  });
  child.stderr.resume();
  await once(child, "close");
  return text;
}

/** Reads a summary of the suite. */
function outcomeOf(part: string, revision: string, text: string): Outcome {
  const summary = text.slice(Math.max(0, text.lastIndexOf("SUMMARY ===")));
  const [counted = "", beside = ""] = summary.split(/^Not scored for /m);
  const unscored = new Map([...beside.matchAll(/^\s*([✓✗]) (\S+) \(/gm)].map(([, mark, name]) => [name, mark]));
  const scenarios = [...counted.matchAll(/^([✓✗]) (\S+): \d+ passed/gm)].filter(([, , name]) => !unscored.has(name));
  const failed = scenarios.flatMap(([, mark, name = ""]) => (mark === "✗" ? [name] : []));
  // A suite that did not come to its end has passed nothing.
  if (scenarios.length === 0 || !counted.includes("Total: ")) failed.push("(the suite did not run to its end)");
  const besideFailed = [...unscored.values()].filter((mark) => mark === "✗").length;
  return {
    part,
    revision,
    passed: scenarios.length - (failed.length > scenarios.length ? 0 : failed.length),
    failed,
    beside: { passed: unscored.size - besideFailed, failed: besideFailed },
  };
}

async function testServer(part: string, url: string): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const revision of REVISIONS) {
    const text = await output([SUITE, "server", "--url", url, "--requirements", revision]);
    const outcome = outcomeOf(part, revision, text);
    if (outcome.failed.length > 0) process.stderr.write(`${part}, ${revision}:\n${text}\n`);
    outcomes.push(outcome);
  }
  return outcomes;
}

async function testClient(): Promise<Outcome[]> {
  const script = join(import.meta.dirname, "conformance-client.ts");
  const outcomes: Outcome[] = [];
  for (const revision of REVISIONS) {
    const text = await output([script, revision]);
    const outcome = outcomeOf("client", revision, text);
    if (outcome.failed.length > 0) process.stderr.write(`client, ${revision}:\n${text}\n`);
    outcomes.push(outcome);
  }
  return outcomes;
}

/** The fixture server, in a process of its own; resolves with its address. */
async function startServer(): Promise<{ url: string; child: ChildProcess }> {
  const script = join(import.meta.dirname, "conformance-server.ts");
  const environment = { ...process.env, PORT: "0" };
  const child = spawn(process.execPath, [script], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) return { url: line, child };
  throw new Error("the fixture server has not started");
}

/** A hub with this server in it, and the door in front of that. */
async function startGateway(url: string): Promise<{ url: string; close(): Promise<void> }> {
  const environment = { PATH: process.env.PATH ?? "", HOME: folder, ROTUNDA_HOME: join(folder, "state") };
  const config = await loadConfig({ workspace: folder, environment });
  config.servers.push({ name: "fixture", transport: "http", url, disabled: false, origin: "conformance" });
  config.mcp.gateway = { prefix: false };
  const app = await createApp({ config, workspace: folder, environment });
  const endpoints = createMcpEndpoints({ app, version: "0" });
  const door = createHttpDoor(app, { port: 0, auth: "none", accessLog: false, mcp: async () => endpoints });
  return {
    url: `${await door.listen()}/mcp/hub`,
    async close() {
      await endpoints.close();
      await door.close({ seconds: 0 });
      await app.close();
    },
  };
}

async function testAll(): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  if (wanted("server") || wanted("gateway")) {
    const { url, child } = await startServer();
    try {
      if (wanted("server")) outcomes.push(...(await testServer("server", url)));
      if (wanted("gateway")) {
        const gateway = await startGateway(url);
        outcomes.push(...(await testServer("gateway", gateway.url)));
        await gateway.close();
      }
    } finally {
      child.kill();
    }
  }
  if (wanted("client")) outcomes.push(...(await testClient()));
  return outcomes;
}

function table(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map(({ part, revision, passed, failed, beside }) => [
    part,
    revision,
    String(passed),
    failed.length === 0 ? "0" : `${failed.length}: ${failed.join(", ")}`,
    `${beside.passed} of ${beside.passed + beside.failed}`,
  ]);
  const lines = [["part", "revision", "passed", "failed", "not required, passed"], ...rows];
  const widths = lines[0]?.map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0))) ?? [];
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

try {
  const outcomes = await testAll();
  process.stdout.write(table(outcomes));
  if (outcomes.some(({ failed }) => failed.length > 0)) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
