/**
 * Bare: the least loop that does the jobs: asks over an undici Pool, reads the events, calls the tool, keeps
 * the messages in memory. No types, as taking them out would be counted as work; nothing is made durable.
 */
import { Pool } from "undici";

const { BENCH_URL = "", BENCH_HEAD = "" } = process.env;
const { origin, pathname } = new URL(`${BENCH_URL}/chat/completions`);
const pool = new Pool(origin, { connections: 256, pipelining: 1 });
/** The body up to its messages, as the other side sends it: model, tools, the system message. */
const head = BENCH_HEAD;
const headers = { "content-type": "application/json", accept: "text/event-stream", authorization: "Bearer bench-key" };
const lookup = async ({ number }) => `The number is ${String(number)}.`;

async function ask(messages) {
  const body = `${head},${JSON.stringify(messages).slice(1)}}`;
  const answer = await pool.request({ path: pathname, method: "POST", headers, body });
  const message = { role: "assistant", content: "" };
  for (const event of (await answer.body.text()).split("\n\n")) {
    if (!event.startsWith("data: ") || event === "data: [DONE]") continue;
    const delta = JSON.parse(event.slice(6)).choices[0]?.delta;
    if (delta?.content) message.content += delta.content;
    for (const call of delta?.tool_calls ?? []) {
      message.tool_calls ??= [];
      message.tool_calls.push({ id: call.id, type: "function", function: call.function });
    }
  }
  if (message.content === "") message.content = null;
  messages.push(message);
  return message.tool_calls ?? [];
}

async function turn(messages, prompt) {
  messages.push({ role: "user", content: prompt });
  let steps = 1;
  for (let calls = await ask(messages); calls.length > 0; calls = await ask(messages), steps++) {
    for (const { id, function: called } of calls) {
      const content = await lookup(JSON.parse(called.arguments));
      messages.push({ role: "tool", tool_call_id: id, content });
    }
  }
  return steps;
}

async function converse({ conversations, turns, steps }, outcome) {
  const messages = [];
  for (let number = 0; number < turns; number++) {
    const began = performance.now();
    const took = await turn(messages, `Look up the numbers, steps=${steps}.`);
    if (conversations === 1) outcome.turns.push({ wall: performance.now() - began, written: 0 });
    if (took !== steps + 1) throw new Error(`the turn had ${took} steps, not ${steps + 1}`);
  }
}

process.on("message", async (job) => {
  const outcome = { wall: 0, cpu: 0, turns: [] };
  const cpu = process.cpuUsage();
  const began = performance.now();
  await Promise.all(Array.from({ length: job.conversations }, () => converse(job, outcome)));
  outcome.wall = performance.now() - began;
  const used = process.cpuUsage(cpu);
  outcome.cpu = used.user + used.system;
  process.send(outcome);
});
process.on("disconnect", () => process.exit());
process.send("ready");
