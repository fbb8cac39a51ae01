/**
 * Short versions of the parts of `npm run reliability`: each row of the table of faults has its proof in `npm test` too.
 *
 * The seeds are fixed, so that a failure is the same failure the next time.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Build, type Change, makeBuild } from "../../reliability/build.ts";
import { clock } from "../../reliability/clock.ts";
import { commits } from "../../reliability/commits.ts";
import { damage } from "../../reliability/damage.ts";
import { disk } from "../../reliability/disk.ts";
import { interleavings } from "../../reliability/interleavings.ts";
import { kills } from "../../reliability/kills.ts";
import type { Outcome, Part } from "../../reliability/part.ts";
import { poison } from "../../reliability/poison.ts";
import { power } from "../../reliability/power.ts";
import { processes } from "../../reliability/processes.ts";
import { upgrade } from "../../reliability/upgrade.ts";

const SLOW = 240_000;
/** Whoever runs the long versions next (.ci/run) need not run the short ones before. */
const follows = process.env.ROTUNDA_RELIABILITY_FOLLOWS !== undefined;
if (follows) process.stderr.write("SKIPPED: the short parts of the reliability suite; the long ones follow\n");
let build: Build;

beforeAll(async () => {
  build = await makeBuild();
}, 60_000);

afterAll(() => build.remove());

async function outcomeOf(part: Part, cycles: number, built = build): Promise<Outcome> {
  const said: string[] = [];
  const outcome = await part.run({
    build: built,
    seed: 7,
    cycles,
    database: "sqlite",
    tell: (text) => said.push(text),
  });
  for (const lack of outcome.skipped ?? []) process.stderr.write(`SKIPPED: ${part.name}: ${lack}\n`);
  return outcome;
}

async function keeps(part: Part, cycles: number): Promise<void> {
  expect((await outcomeOf(part, cycles)).faults).toEqual([]);
}

test.skipIf(follows)("D1 a server is killed at random times under mixed load", () => keeps(kills, 6), SLOW);

test.skipIf(follows)("D1 eight kinds of turn are killed at commits", () => keeps(commits, 2), SLOW);

test.skipIf(follows)("D1 an upgrade is killed at statements: the data is whole", () => keeps(upgrade, 3), SLOW);

test.skipIf(follows)("D2 the power fails: nothing acknowledged is lost", () => keeps(power, 15), SLOW);

test.skipIf(follows)("D3 D4 D5 a full disk, a read-only one, and an fsync that fails", () => keeps(disk, 1), SLOW);

test.skipIf(follows)(
  "D6 bytes flip in pages: found, and the rest is served after the repair",
  () => keeps(damage, 6),
  SLOW,
);

test.skipIf(follows)("D7 two servers on one database are killed in turns", () => keeps(processes, 4), SLOW);

test.skipIf(follows)("D7 the wall clock jumps", () => keeps(clock, 5), SLOW);

test.skipIf(follows)("D7 the engine's steps come in any order", () => keeps(interleavings, 25), SLOW);

test.skipIf(follows)(
  "D13 a response brings the server down: it is ended, the others go on",
  () => keeps(poison, 1),
  SLOW,
);

/** The gate: what is made worse on purpose must be noticed. */
test.each<[string, Part, number, Change]>([
  [
    "a commit without fsync",
    power,
    15,
    { file: "src/store/sqlite-open.ts", from: "PRAGMA synchronous = FULL", to: "PRAGMA synchronous = OFF" },
  ],
  [
    "a hash that nobody looks at",
    damage,
    20,
    {
      file: "src/store/sqlite-tree.ts",
      from: "hashOf(row, rows, parentHash) !== row.hash",
      to: "hashOf(row, rows, parentHash) === null",
    },
  ],
])(
  "a mutant is caught: %s",
  async (_name, part, cycles, change) => {
    const mutant = await makeBuild([change]);
    try {
      const { faults, skipped = [] } = await outcomeOf(part, cycles, mutant);
      if (skipped.length === 0) expect(faults.length).toBeGreaterThan(0);
    } finally {
      mutant.remove();
    }
  },
  SLOW,
);
