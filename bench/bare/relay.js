/**
 * Bare: the least server that hands requests on to an endpoint over an undici Pool, and its answers back as they come.
 * No types, as taking them out would be counted as work; nothing is read, kept or made durable.
 */
import { createServer } from "node:http";
import { Pool } from "undici";

const { BENCH_URL = "" } = process.env;
const pool = new Pool(BENCH_URL, { connections: 2_000, pipelining: 1 });
const headers = { "content-type": "application/json", authorization: "Bearer bench-key" };

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const answer = await pool.request({ path: request.url, method: "POST", headers, body });
  response.writeHead(answer.statusCode, { "content-type": answer.headers["content-type"] });
  answer.body.pipe(response);
});
server.listen({ host: "127.0.0.1", port: 0, backlog: 1_024 }, () => {
  process.send({ url: `http://127.0.0.1:${server.address().port}` });
});
process.on("disconnect", () => process.exit());
