/**
 * Part `drain`: SIGTERM under load, and the second one.
 *
 * Invariant: the server leaves with 0 within ten seconds and a little, nothing is lost, what did not come to its end
 * goes on with the next one; the second signal ends it at once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { question } from "./endpoint.ts";
import { none, type Outcome, type Part, quantile, type Setting } from "./part.ts";
import { eventually } from "./server.ts";
import { type Storm, weather } from "./storm.ts";

const IN_CI = 10;
/** Seconds that a drain may take; a second for the machine. */
const LIMIT = 11_000;
/** A machine that is busy may take longer; not so much. */
const PATIENCE = 20_000;
/** Milliseconds that the second signal may take. */
const AT_ONCE = 2_000;

/** A response that holds a drain for as long as it may last, and somebody who reads it. */
async function hold({ servers: [server], history }: Storm): Promise<string> {
  if (!server) throw new Error("no server");
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "test-model", input: question({ words: 250, delay: 50 }), background: true });
  const made = await fetch(`${server.url}/v1/responses`, { method: "POST", headers, body });
  const { id } = (await made.json()) as { id: string };
  history.acknowledge(id, "slow");
  fetch(`${server.url}/v1/responses/${id}?stream=true`, { headers })
    .then((answer) => answer.text())
    .catch(() => undefined);
  return id;
}

async function run(setting: Setting): Promise<Outcome> {
  const drains = setting.cycles ?? IN_CI;
  const took: number[] = [];
  const twice: number[] = [];
  const wrong: string[] = [];
  const { faults, history } = await weather(setting, {
    async torment(storm) {
      const [server] = storm.servers;
      if (!server) return;
      for (let drain = 1; drain <= drains; drain++) {
        await sleep(storm.chance.between(100, 800));
        const end = await server.stop("SIGTERM");
        took.push(end.took);
        if (end.code !== 0 || end.took > PATIENCE)
          wrong.push(`drain ${drain}: ${end.code ?? end.signal} after ${end.took} ms`);
        await server.start();
      }
      const held = await hold(storm);
      await sleep(300);
      const slow = await server.stop("SIGTERM");
      took.push(slow.took);
      if (slow.code !== 0 || slow.took > PATIENCE)
        wrong.push(`held: ${slow.code ?? slow.signal} after ${slow.took} ms`);
      await server.start();
      await sleep(300);
      server.signal("SIGTERM");
      await sleep(100);
      const second = await server.stop("SIGTERM");
      twice.push(second.took);
      if ((second.code !== 143 && second.code !== 0) || second.took > PATIENCE / 2) {
        wrong.push(`second signal: ${second.code ?? second.signal} after ${second.took} ms`);
      }
      await server.start();
      const headers = { authorization: `Bearer ${server.token}` };
      const isEnded = async () => {
        const { status } = (await (await fetch(`${server.url}/v1/responses/${held}`, { headers })).json()) as {
          status: string;
        };
        return status === "completed";
      };
      if (!(await eventually(isEnded, 60_000))) wrong.push("what held the drain does not come to its end");
    },
  });
  return {
    faults: [...faults, ...wrong],
    figures: [
      { what: "SIGTERM under load", value: took.length },
      none("exit codes other than 0, drains that did not end", wrong.length),
      {
        what: "a drain took, p50 / worst",
        value: `${Math.round(quantile(took, 0.5))} / ${Math.round(quantile(took, 1))} ms`,
        goal: "≤ 10,000 ms and a little",
        ok: quantile(took, 1) <= LIMIT,
        time: true,
      },
      {
        what: "after the second signal",
        value: `${Math.round(quantile(twice, 1))} ms`,
        goal: "≤ 2,000 ms",
        ok: quantile(twice, 1) <= AT_ONCE,
        time: true,
      },
      none("acknowledged and lost, doubled, torn or not ended", faults.length),
      { what: "responses acknowledged", value: history.acknowledged.size },
    ],
  };
}

export const drain: Part = { name: "drain", about: "SIGTERM under load, once and twice", rows: ["P11"], run };
