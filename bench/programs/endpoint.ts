/**
 * The endpoint that the servers of the measurements ask: a short answer after a while, or 200 tokens at 20 a second.
 *
 * Invariant: it costs as little as a server can, on the bare socket with every byte made before: the machine's cores
 * are for what is measured. The last message of a request says what is wanted: `wait=MILLISECONDS`, or `tokens`.
 */
import { createServer, type Socket } from "node:net";
import { TOKENS } from "./messages.ts";

/** Milliseconds between two tokens of one stream. */
const PAUSE = 50;
/** Streams do not speak in step: each belongs to one of these groups, which take turns. */
const GROUPS = 10;

const event = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "test-model",
    choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`;

const usage = `data: ${JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "test-model",
  choices: [],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
})}\n\n`;

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n";
const END = `${event({}, "stop")}${usage}data: [DONE]\n\n`;

const begin = Buffer.from(HEAD + chunk(event({ role: "assistant", content: "" })));
const tokens = Array.from({ length: TOKENS }, (_, number) => Buffer.from(chunk(event({ content: `w${number} ` }))));
const end = Buffer.from(`${chunk(END)}0\r\n\r\n`);
const short = ["All the ", "numbers ", "are known."].map((content) => event({ content })).join("");
const answer = Buffer.from(`${HEAD}${chunk(event({ role: "assistant", content: "" }) + short + END)}0\r\n\r\n`);

interface Stream {
  socket: Socket;
  next: number;
}

const groups = Array.from({ length: GROUPS }, () => new Set<Stream>());
let turn = 0;
let started = 0;

setInterval(() => {
  turn = (turn + 1) % GROUPS;
  const group = groups[turn];
  for (const stream of group ?? []) {
    const token = tokens[stream.next++];
    stream.socket.write(token ?? end);
    if (!token) group?.delete(stream);
  }
}, PAUSE / GROUPS);

function speak(socket: Socket): void {
  socket.write(begin);
  const stream = { socket, next: 0 };
  const group = groups[started++ % GROUPS];
  group?.add(stream);
  socket.once("close", () => group?.delete(stream));
}

/** Length of the first whole request in these bytes; 0 where it is not whole yet. */
function lengthOf(bytes: Buffer): number {
  const head = bytes.indexOf("\r\n\r\n");
  if (head < 0) return 0;
  const length = /\r\ncontent-length: *(\d+)/i.exec(bytes.toString("latin1", 0, head))?.[1];
  const whole = head + 4 + Number(length ?? 0);
  return bytes.length >= whole ? whole : 0;
}

const server = createServer({ noDelay: true }, (socket) => {
  let bytes = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", (more) => {
    bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
    const length = lengthOf(bytes);
    if (length === 0) return;
    const request = bytes.toString("latin1", 0, length);
    bytes = bytes.subarray(length);
    const question = request.slice(request.lastIndexOf('"role":"user"'));
    const wait = Number(/wait=(\d+)/.exec(question)?.[1] ?? 0);
    if (question.includes("tokens")) speak(socket);
    else if (wait > 0) setTimeout(() => socket.write(answer), wait);
    else socket.write(answer);
  });
});
server.listen({ host: "127.0.0.1", port: 0, backlog: 1_024 }, () => {
  const address = server.address();
  process.send?.({ url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}` });
});
process.on("disconnect", () => process.exit());
