/**
 * The client half of the MCP conformance suite.
 *
 *   node scripts/conformance-client.ts                      runs all that both revisions require
 *   node scripts/conformance-client.ts 2026-07-28           only those of one
 *   node scripts/conformance-client.ts http://host/mcp      is the client under test; the suite starts it so
 *
 * As the client it is our hub, told by MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT what to do. Everything on
 * the wire is the hub's doing; this script is the person: it logs in where the hub says that a login is needed, calls
 * every tool that is offered, and answers what a server asks with "accept".
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHub } from "../src/hub/hub.ts";
import type { Hub, HubTool } from "../src/hub/hub-types.ts";
import type { OAuthConfig } from "../src/types/config.ts";
import type { JsonObject } from "../src/types/json.ts";
import type { ToolContext } from "../src/types/tool.ts";

const NAME = "suite";
/** Of logins for one call that is refused again and again. */
const MAX_LOGINS = 2;

interface Context {
  client_id?: string;
  client_secret?: string;
  private_key_pem?: string;
  toolCalls?: { name: string; arguments: JsonObject }[];
}

const REVISIONS = ["2025-11-25", "2026-07-28"];

const url = process.argv[2] ?? "";
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}") as Context;

function oauth(): OAuthConfig {
  const { client_id: clientId, client_secret: clientSecret, private_key_pem: privateKey } = context;
  return {
    clientMetadataUrl: "https://conformance-test.local/client-metadata.json",
    ...(clientId !== undefined && { clientId }),
    ...(clientSecret !== undefined && { clientSecret }),
    ...(privateKey !== undefined && { privateKey }),
    ...(scenario.startsWith("auth/client-credentials") && { flow: "client_credentials" as const }),
  };
}

/** The person's browser: it follows the redirect of the authorization server to our own address. */
async function open(address: string): Promise<void> {
  const answer = await fetch(address, { redirect: "manual" });
  const location = answer.headers.get("location");
  if (location === null) throw new Error(`the authorization server answers ${answer.status}`);
  await fetch(location);
}

async function logIn(hub: Hub): Promise<void> {
  let opened: Promise<void> = Promise.resolve();
  await hub.login(
    NAME,
    ({ authorizationUrl }) => {
      opened = open(authorizationUrl);
    },
    AbortSignal.timeout(20_000),
  );
  await opened;
}

/** Arguments that fit what the schema asks for. */
function argumentsFor(tool: HubTool): JsonObject {
  const properties = (tool.input.properties ?? {}) as Record<string, { type?: string }>;
  const samples: Record<string, string | number | boolean> = { string: "hello", number: 2, integer: 2, boolean: true };
  const entries = Object.entries(properties).map(([name, { type }]) => [name, samples[type ?? ""] ?? "hello"] as const);
  return Object.fromEntries(entries);
}

const callContext: ToolContext = {
  workspace: process.cwd(),
  signal: new AbortController().signal,
  responseId: "resp_conformance",
  itemId: "mcp_conformance",
  profile: "general",
  depth: 0,
  isolation: { readOnly: false, network: false },
  progress: () => undefined,
  delegate: () => Promise.reject(new Error("there are no sub-agents here")),
  readOutput: async () => undefined,
};

/** One call; where it wants a login, that and the call again. */
async function callTool(hub: Hub, tool: HubTool, input: JsonObject): Promise<void> {
  for (let logins = 0; ; logins++) {
    const result = await tool.run(input, callContext);
    process.stderr.write(`${tool.serverName}: ${result.isError ? "failed" : "done"}: ${result.text}\n`);
    if (!result.isError || !result.text.includes("rotunda hub login") || logins === MAX_LOGINS) return;
    await logIn(hub);
  }
}

async function run(hub: Hub): Promise<void> {
  let tools = await hub.list();
  for (let logins = 0; logins < MAX_LOGINS && hub.servers()[0]?.state === "needs_login"; logins++) {
    await logIn(hub);
    tools = await hub.list();
  }
  const { state, error } = hub.servers()[0] ?? {};
  process.stderr.write(`${state}: ${tools.length} tools ${error ?? ""}\n`);
  if (state !== "healthy") throw new Error(`${state}: ${error}`);
  const wished = context.toolCalls?.flatMap((call) => {
    const tool = tools.find(({ serverName }) => serverName === call.name);
    return tool ? [{ tool, input: call.arguments }] : [];
  });
  // One scenario wants to be told the schema that another of its tools was listed with.
  const echoed = tools.find(({ serverName }) => serverName !== "json_schema_echo")?.input ?? {};
  const calls =
    wished ??
    tools.map((tool) => {
      const input = tool.serverName === "json_schema_echo" ? { schema: echoed } : argumentsFor(tool);
      return { tool, input };
    });
  for (const { tool, input } of calls) await callTool(hub, tool, input);
}

async function beClient(): Promise<void> {
  const stateDir = mkdtempSync(join(tmpdir(), "rotunda-conformance-"));
  const hub = createHub({
    servers: [
      // The suite runs all its scenarios at once.
      { name: NAME, transport: "http", url, oauth: oauth(), startTimeout: 25, disabled: false, origin: "conformance" },
    ],
    stateDir,
    workspace: process.cwd(),
    launch: () => Promise.reject(new Error("no process is started here")),
    notify: ({ level, text }) => void process.stderr.write(`${level}: ${text}\n`),
    elicitation: {
      open: () => true,
      asked: ({ id }) => hub.answerElicitation(id, { action: "accept", content: {} }),
    },
  });
  try {
    await run(hub);
  } catch (error) {
    process.stderr.write(`${String(error)}\n`);
    process.exitCode = 1;
  } finally {
    await hub.close();
    rmSync(stateDir, { recursive: true, force: true });
  }
}

/** The suite's own summary goes to stdout. Exit code 1 where a scenario that counts has failed. */
function runSuite(revision: string): void {
  const results = mkdtempSync(join(tmpdir(), "rotunda-conformance-"));
  const suite = join(import.meta.dirname, "../node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const command = `"${process.execPath}" "${import.meta.filename}"`;
  const args = [suite, "client", "--command", command, "--requirements", revision, "--output-dir", results];
  const { status, stdout } = spawnSync(process.execPath, args, {
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
    maxBuffer: 256 * 1024 * 1024,
  });
  const summary = stdout.slice(Math.max(0, stdout.indexOf("=== SUITE SUMMARY")));
  process.stdout.write(`Client, revision ${revision}\n${summary}\n`);
  if (status === 0) rmSync(results, { recursive: true, force: true });
  else {
    process.stderr.write(`What was said on the wire: ${results}\n`);
    process.exitCode = 1;
  }
}

if (URL.canParse(url)) await beClient();
else for (const revision of url === "" ? REVISIONS : [url]) runSuite(revision);
