/** The least MCP server over stdio: enough to be listed and remembered, and to say a text again after `wait` milliseconds. */
import { createInterface } from "node:readline";

const tools = ["one", "two", "three"].map((name) => ({
  name,
  description: `Does ${name}`,
  inputSchema: { type: "object", properties: { text: { type: "string" } } },
}));

interface Request {
  id?: number;
  method: string;
  params?: { protocolVersion?: string; arguments?: { text?: string; wait?: number } };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line) as Request;
  if (id === undefined) continue;
  const { text = "", wait = 0 } = params?.arguments ?? {};
  const result =
    method === "initialize"
      ? {
          protocolVersion: params?.protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: "bench", version: "1" },
        }
      : method === "tools/list"
        ? { tools }
        : method === "tools/call"
          ? { content: [{ type: "text", text }] }
          : {};
  const answer = () => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
  if (wait > 0) setTimeout(answer, wait);
  else answer();
}
