/**
 * A client that loses its connection, and no event. It starts a background response, hangs up after every tenth event,
 * and reads on behind the last one that it has seen. It also waits for a server that is away: kill it with `kill -9`
 * and start it again while this runs, and the answer is still whole.
 *
 * With a server that runs (`rotunda start`), in a checkout of Rotunda or wherever the package `openai` is installed:
 *
 *   export OPENAI_BASE_URL=http://127.0.0.1:7070/v1 OPENAI_API_KEY=$(rotunda token)
 *   node examples/resumable-stream.ts "Read README.md"
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const input = process.argv[2] ?? "What is in this folder?";

// With a key of its own the request can be sent again, and makes one response all the same.
const headers = { "idempotency-key": randomUUID() };
const { id } = await keepTrying(() => client.responses.create({ input, background: true }, { headers }));

let last = -1;
let connections = 0;
let text = "";
for (let ended = false; !ended; ) ended = await keepTrying(readOn);
process.stdout.write(`${text}\n\n${last + 1} events over ${connections} connections, none lost\n`);

/** Reads at most ten events behind the last known one. True: that was the end. */
async function readOn(): Promise<boolean> {
  const from = last < 0 ? {} : { starting_after: last };
  const events = await client.responses.retrieve(id, { stream: true, ...from });
  connections++;
  let seen = 0;
  for await (const event of events) {
    if (event.sequence_number !== last + 1) throw new Error(`event ${last + 1} is missing`);
    last = event.sequence_number;
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.completed" || event.type === "response.incomplete") return true;
    if (event.type === "response.failed") throw new Error(event.response.error?.message);
    if (++seen === 10) {
      events.controller.abort();
      process.stderr.write(`hung up after event ${last}\n`);
      return false;
    }
  }
  return false;
}

/** For up to a minute, as long as nobody answers or the connection breaks. */
async function keepTrying<Result>(attempt: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      const isAway = error instanceof OpenAI.APIConnectionError || error instanceof TypeError;
      const isBusy = error instanceof OpenAI.APIError && error.status === 503;
      if (!(isAway || isBusy) || tries === 240) throw error;
      await sleep(250);
    }
  }
}
