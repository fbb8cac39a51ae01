/**
 * Part `processes`: two servers on one database, each killed again and again while clients use both.
 *
 * Invariant: the same as of one server: a response has one process at a time, and whoever wakes up late writes nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { none, type Outcome, type Part, type Setting } from "./part.ts";
import { weather } from "./storm.ts";

const IN_CI = 30;

async function run(setting: Setting): Promise<Outcome> {
  const kills = setting.cycles ?? IN_CI;
  let pauses = 0;
  const { faults, history } = await weather(setting, {
    servers: 2,
    clients: 10,
    async torment({ servers, chance }) {
      for (let kill = 1; kill <= kills; kill++) {
        await sleep(chance.between(50, 500));
        const server = chance.one(servers);
        if (chance.next() < 0.2) {
          // Asleep for a while, as a laptop is: what it held may be somebody else's when it wakes up.
          server.signal("SIGSTOP");
          await sleep(chance.between(50, 400));
          server.signal("SIGCONT");
          pauses++;
        }
        await server.stop("SIGKILL");
        await server.start();
        if (kill % 10 === 0) setting.tell(`${kill} of ${kills} kills`);
      }
    },
  });
  return {
    faults,
    figures: [
      { what: "kill -9 of one of two servers", value: kills },
      { what: "of these after a time of standing still (SIGSTOP)", value: pauses },
      none("acknowledged and lost, doubled, torn or not ended", faults.length),
      { what: "responses acknowledged", value: history.acknowledged.size },
      { what: "streams read over both servers, each equal to its replay", value: history.of("streams whole") },
    ],
  };
}

export const processes: Part = {
  name: "processes",
  about: "two servers on one database, killed in turns",
  rows: ["P7"],
  run,
};
