/**
 * The model of the measurements: asks for one tool call after the other, as many as the last question says,
 * then answers. It does the least work per request that a real HTTP server can do.
 */
import { serialiseAnswer, startUpstream } from "../../src/testing/upstream.ts";
import type { Answers } from "./messages.ts";

let last: Answers["last"] = { moment: 0, body: "" };
let body: Buffer = Buffer.alloc(0);
let calls = 0;

const answered = serialiseAnswer({ text: ["All the ", "numbers ", "are known."] });
const NUMBER = "4242424242";
const [head = "", middle = "", tail = ""] = serialiseAnswer({
  calls: [{ id: `call_${NUMBER}`, name: "lookup", arguments: `{"number":${NUMBER}}` }],
})
  .toString("utf8")
  .split(NUMBER);

function answer(request: Buffer): Buffer {
  last = { moment: Number(process.hrtime.bigint()) / 1e6, body: "" };
  body = request;
  const question = request.lastIndexOf('"role":"user"');
  const since = request.toString("latin1", question);
  const wanted = Number(/steps=(\d+)/.exec(since)?.[1] ?? 0);
  const done = since.split('"role":"tool"').length - 1;
  if (done >= wanted) return answered;
  calls++;
  return Buffer.from(`${head}${calls}${middle}${calls}${tail}`);
}

const upstream = await startUpstream([], { fast: answer });
const ready: Answers["ready"] = { url: upstream.url };
process.send?.(ready);
process.on("message", () => process.send?.({ ...last, body: body.toString("utf8") } satisfies Answers["last"]));
process.on("disconnect", () => process.exit());
