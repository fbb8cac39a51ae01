/**
 * Calls tools again and again: with the SDK's own client, or through our hub in its place.
 *
 * Invariant: a call that does not say the text again is an error, not a number.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createHub } from "../../src/hub/hub.ts";
import type { ToolContext } from "../../src/types/tool.ts";

/** By `BENCH_TARGET`. */
interface Target {
  /** Through our hub; else with the SDK's client. */
  hub: boolean;
  /** Of a server over HTTP; absent: the one over stdio. */
  url?: string;
  token?: string;
  tool: string;
}

export interface Calls {
  count: number;
  flight: number;
  /** Milliseconds that each call takes the server. */
  wait: number;
}

const { hub: throughHub, url, token, tool } = JSON.parse(process.env.BENCH_TARGET ?? "{}") as Target;
const script = new URL("./mcp-server.ts", import.meta.url).pathname;
const call = await (throughHub ? openHub() : openClient());

async function openClient(): Promise<(input: { text: string; wait: number }) => Promise<string>> {
  const client = new Client({ name: "bench", version: "1" }, { versionNegotiation: { mode: url ? "auto" : "legacy" } });
  const requestInit = { headers: token === undefined ? {} : { authorization: `Bearer ${token}` } };
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit })
    : new StdioClientTransport({ command: process.execPath, args: [script] });
  await client.connect(transport);
  return async (input) => {
    const { content } = await client.callTool({ name: tool, arguments: input });
    const [first] = content as { text?: string }[];
    return first?.text ?? "";
  };
}

async function openHub(): Promise<(input: { text: string; wait: number }) => Promise<string>> {
  const place = url
    ? { transport: "http" as const, url }
    : { transport: "stdio" as const, command: process.execPath, args: [script] };
  const hub = createHub({
    servers: [{ name: "bench", disabled: false, origin: "bench", ...place }],
    stateDir: process.env.HOME ?? "",
    workspace: process.cwd(),
    launch: async ({ command, args, env, cwd }) => ({ command, args, env, cwd }),
    notify: () => undefined,
  });
  const found = await hub.find(`bench__${tool}`);
  if (!found) throw new Error(`the hub has no tool ${tool}`);
  const context: ToolContext = {
    workspace: process.cwd(),
    signal: new AbortController().signal,
    responseId: "resp_bench",
    itemId: "mcp_bench",
    profile: "general",
    depth: 0,
    isolation: { readOnly: false, network: false },
    progress: () => undefined,
    delegate: () => Promise.reject(new Error("there are no sub-agents here")),
    readOutput: async () => undefined,
  };
  return async (input) => (await found.run(input, context)).text;
}

process.on("message", async ({ count, flight, wait }: Calls) => {
  let left = count;
  const began = performance.now();
  const lane = async () => {
    while (left-- > 0) {
      const answer = await call({ text: "hello", wait });
      if (answer !== "hello") throw new Error(`the server said ${answer.slice(0, 200)}`);
    }
  };
  await Promise.all(Array.from({ length: flight }, lane));
  process.send?.({ wall: performance.now() - began });
});
process.send?.("ready");
