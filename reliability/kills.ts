/**
 * Part `kills`: a server is killed at random times under the mixed load, and started again.
 *
 * Invariant: nothing acknowledged is lost, no effect happens twice, every stream can be put together without a gap, and
 * what was running goes on or is marked within two seconds of the server's start.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { none, type Outcome, type Part, quantile, type Setting } from "./part.ts";
import { untilTakenUp, weather } from "./storm.ts";

const IN_CI = 200;
/** Milliseconds within which everything must be somebody's again. */
const LIMIT = 2_000;
/** With a queue it is the queue that finds out that a process is gone. */
const QUEUE_LIMIT = 15_000;

async function run(setting: Setting): Promise<Outcome> {
  const kills = setting.cycles ?? IN_CI;
  const limit = setting.database === "sqlite" ? LIMIT : QUEUE_LIMIT;
  const starts: number[] = [];
  const takeUps: number[] = [];
  let late = 0;
  const never: string[] = [];
  const { faults, history, retries } = await weather(setting, {
    async torment(storm) {
      const {
        servers: [server],
        chance,
      } = storm;
      if (!server) return;
      for (let kill = 1; kill <= kills; kill++) {
        // Often right after it listens, where recovery itself is hit; sometimes much later.
        await sleep(chance.next() < 0.3 ? chance.between(0, 100) : chance.between(60, 700));
        const { pid } = server;
        await server.stop("SIGKILL");
        const started = await server.start();
        starts.push(started);
        if (kill % 25 === 0) setting.tell(`${kill} of ${kills} kills`);
        if (chance.next() < 0.5) continue;
        const took = await untilTakenUp(storm, pid);
        if (took === undefined) never.push(`kill ${kill}`);
        else if (took + started > limit) late++;
        if (took !== undefined) takeUps.push(took + started);
      }
    },
  });
  return {
    faults: [...faults, ...never.map((text) => `what ran was not taken up: ${text}`)],
    figures: [
      { what: "kill -9 of the server under load", value: kills },
      none("acknowledged and lost, doubled, torn or not ended", faults.length),
      { what: "responses acknowledged", value: history.acknowledged.size },
      { what: "effects asked for", value: history.effects.length },
      { what: "streams put together out of parts, each equal to its replay", value: history.of("streams whole") },
      { what: "connections that were cut in a stream", value: history.of("cuts") },
      { what: "responses that ended `incomplete`, as interrupted", value: history.of("interrupted") },
      { what: "requests repeated with the same key", value: retries },
      { what: "start until it listens, p50", value: `${Math.round(quantile(starts, 0.5))} ms` },
      {
        what: "start until everything is taken up or marked, p50 / worst",
        value: `${Math.round(quantile(takeUps, 0.5))} / ${Math.round(quantile(takeUps, 1))} ms`,
        goal: `≤ ${limit.toLocaleString("en-US")} ms`,
        time: true,
        ok: late === 0,
      },
    ],
  };
}

export const kills: Part = { name: "kills", about: "kill -9 at random times under mixed load", rows: ["P1"], run };
