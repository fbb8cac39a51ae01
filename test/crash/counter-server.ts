/** An MCP server with one tool that has a countable effect: it appends a line to `mcp-effects.log`. */
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const tool = {
  name: "append",
  description: "Appends a line to the log",
  inputSchema: { type: "object", properties: { line: { type: "string" } }, required: ["line"] },
};

const results: Record<
  string,
  (params: { name?: string; arguments?: { line?: string }; protocolVersion?: string }) => object
> = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "counter", version: "1" },
  }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ arguments: input }) => {
    appendFileSync("mcp-effects.log", `${input?.line ?? ""}\n`);
    return { content: [{ type: "text", text: "appended" }] };
  },
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line) as { id?: number; method?: string; params?: object };
  if (id === undefined) return;
  const result = results[method ?? ""];
  const reply = result
    ? { jsonrpc: "2.0", id, result: result(params ?? {}) }
    : { jsonrpc: "2.0", id, error: { code: -32601, message: "unknown method" } };
  process.stdout.write(`${JSON.stringify(reply)}\n`);
});
