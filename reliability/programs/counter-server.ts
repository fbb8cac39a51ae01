/**
 * An MCP server whose tools have an effect that can be counted: a line in `mcp-effects.log` of its directory.
 *
 * `append` and `append_asked` do the same; the second one is for rules that ask a person.
 */
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

interface Parameters {
  name?: string;
  arguments?: { line?: string };
  protocolVersion?: string;
}

const input = { type: "object", properties: { line: { type: "string" } }, required: ["line"] };
const tools = ["append", "append_asked"].map((name) => ({ name, description: "Appends a line", inputSchema: input }));

const results: Record<string, (parameters: Parameters) => object> = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "counter", version: "1" },
  }),
  "tools/list": () => ({ tools }),
  "tools/call": ({ arguments: given }) => {
    appendFileSync("mcp-effects.log", `${given?.line ?? ""}\n`);
    return { content: [{ type: "text", text: "appended" }] };
  },
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line) as { id?: number; method?: string; params?: Parameters };
  if (id === undefined) return;
  const result = results[method ?? ""];
  const reply = result
    ? { jsonrpc: "2.0", id, result: result(params ?? {}) }
    : { jsonrpc: "2.0", id, error: { code: -32601, message: "unknown method" } };
  process.stdout.write(`${JSON.stringify(reply)}\n`);
});
