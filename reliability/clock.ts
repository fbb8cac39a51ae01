/**
 * Part `clock`: the wall clock of a server jumps an hour ahead and back under load, and the server is killed meanwhile.
 *
 * Invariant: nothing is lost, done twice or ended early because of what the clock says.
 */
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { none, type Outcome, type Part, type Setting } from "./part.ts";
import { weather } from "./storm.ts";

const IN_CI = 30;
const HOUR = 3_600_000;

async function run(setting: Setting): Promise<Outcome> {
  const jumps = setting.cycles ?? IN_CI;
  const file = join(setting.build.folder, `clock-${process.pid}`);
  writeFileSync(file, "0");
  let kills = 0;
  const { faults, history } = await weather(setting, {
    clients: 8,
    environment: {
      RELIABILITY_CLOCK: file,
      NODE_OPTIONS: `--import ${setting.build.program("clock")}`,
      TMPDIR: tmpdir(),
    },
    async torment({ servers: [server], chance }) {
      for (let jump = 1; jump <= jumps; jump++) {
        await sleep(chance.between(50, 400));
        writeFileSync(file, String(chance.one([-HOUR, 0, HOUR, 2 * HOUR])));
        if (chance.next() < 0.3) {
          kills++;
          await server?.stop("SIGKILL");
          await server?.start();
        }
      }
      writeFileSync(file, "0");
    },
  });
  return {
    faults,
    figures: [
      { what: "jumps of the clock by an hour or two, ahead and back", value: jumps },
      { what: "kill -9 meanwhile", value: kills },
      none("lost, doubled, torn, ended early", faults.length),
      { what: "responses acknowledged", value: history.acknowledged.size },
    ],
  };
}

export const clock: Part = { name: "clock", about: "the wall clock jumps an hour ahead and back", rows: ["P7"], run };
