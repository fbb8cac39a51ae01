/** The least MCP server over HTTP, of 2026-07-28: it says a text again after `wait` milliseconds. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const tools = [
  { name: "one", description: "Does one", inputSchema: { type: "object", properties: { text: { type: "string" } } } },
];
const done = { resultType: "complete" } as const;

interface Request {
  id?: number;
  method: string;
  params?: { arguments?: { text?: string; wait?: number } };
}

function resultOf({ method, params }: Request): object {
  if (method === "server/discover") {
    const kept = { ttlMs: 0, cacheScope: "private" };
    return { ...done, ...kept, supportedVersions: ["2026-07-28"], capabilities: { tools: {} } };
  }
  if (method === "tools/list") return { ...done, ttlMs: 0, cacheScope: "private", tools };
  return { ...done, content: [{ type: "text", text: params?.arguments?.text ?? "" }] };
}

const server = createServer((request, response) => {
  let text = "";
  request.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
  });
  request.on("end", () => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const asked = JSON.parse(text) as Request;
    if (asked.id === undefined) return void response.writeHead(202).end();
    const body = JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: resultOf(asked) });
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const answer = () => void response.writeHead(200, headers).end(body);
    const { wait = 0 } = asked.params?.arguments ?? {};
    if (wait > 0) setTimeout(answer, wait);
    else answer();
  });
});
server.listen(0, "127.0.0.1", () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});
process.once("SIGTERM", () => process.exit(0));
