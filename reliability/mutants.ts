/**
 * Part `mutants`: the program is made worse on purpose, and the part that should notice it is run on the worse one.
 *
 * Invariant: every mutant is caught by the part that is named for it. One that survives is a fault of the suite; so is
 * one whose change no longer fits the sources.
 */
import { type Change, makeBuild } from "./build.ts";
import { runCommits } from "./commits.ts";
import { damage } from "./damage.ts";
import { disk } from "./disk.ts";
import { none, type Outcome, type Part, type Setting } from "./part.ts";
import { poison } from "./poison.ts";
import { power } from "./power.ts";

interface Mutant {
  name: string;
  change: Change;
  /** Who must catch it, and how much of it is run at most. */
  by: Pick<Part, "name" | "run">;
  cycles: number;
}

const commitsOf = (...names: string[]) => ({ name: "commits", run: (setting: Setting) => runCommits(setting, names) });

const mutants: readonly Mutant[] = [
  {
    name: "acknowledges before the commit",
    change: {
      file: "src/store/sqlite.ts",
      from: "    return this.#db.write(() => this.#apply(batch), now);",
      to: "    this.#db.write(() => this.#apply(batch), now).catch(() => undefined);\n    return Promise.resolve();",
    },
    by: commitsOf("plain", "write tool"),
    cycles: 12,
  },
  {
    name: "leaves out the fsync",
    change: { file: "src/store/sqlite-open.ts", from: "PRAGMA synchronous = FULL", to: "PRAGMA synchronous = OFF" },
    by: power,
    cycles: 60,
  },
  {
    name: "syncs as SQLite does by default",
    change: { file: "src/store/sqlite-open.ts", from: "PRAGMA synchronous = FULL", to: "PRAGMA synchronous = NORMAL" },
    by: power,
    cycles: 60,
  },
  {
    name: "does not look at the hash",
    change: {
      file: "src/store/sqlite-tree.ts",
      from: "hashOf(row, rows, parentHash) !== row.hash",
      to: "hashOf(row, rows, parentHash) === null",
    },
    by: damage,
    cycles: 40,
  },
  {
    name: "runs a call again that had started",
    change: {
      file: "src/engine/call-tools.ts",
      from: 'entry.item.status === "calling" && tool?.repeatable !== true',
      to: 'entry.item.status === "calling" && tool === undefined',
    },
    by: commitsOf("write tool", "MCP tool"),
    cycles: 24,
  },
  {
    name: "starts a call before it is on disk",
    change: { file: "src/engine/call-tools.ts", from: 'entry.item = { ...entry.item, status: "calling" };', to: "" },
    by: commitsOf("write tool", "MCP tool"),
    cycles: 24,
  },
  {
    name: "goes on after a failed fsync",
    change: {
      file: "src/store/sqlite-database.ts",
      from: "if (isSyncFailure(error)) this.#isSuspect = true;",
      to: "if (isSyncFailure(error)) return false;",
    },
    by: disk,
    cycles: 2,
  },
  {
    name: "takes a response up however often it has brought the server down",
    change: { file: "src/doors/http/take-up.ts", from: "const MOST_RESTARTS = 3;", to: "const MOST_RESTARTS = 1_000;" },
    by: poison,
    cycles: 1,
  },
];

async function run({ seed, database, tell }: Setting): Promise<Outcome> {
  const faults: string[] = [];
  const skipped: string[] = [];
  const figures: Outcome["figures"] = [];
  let survivors = 0;
  for (const { name, change, by, cycles } of mutants) {
    const build = await makeBuild([change]).catch((error: unknown) => {
      faults.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    });
    if (!build) continue;
    try {
      const outcome = await by
        .run({ build, seed, cycles, database, tell: () => undefined, first: true })
        .catch((error: unknown): Outcome => ({ figures: [], faults: [String(error)] }));
      const [first] = outcome.faults;
      if (first === undefined && (outcome.skipped?.length ?? 0) > 0) {
        skipped.push(`${name}: ${outcome.skipped?.join(", ")}`);
        continue;
      }
      if (first === undefined) {
        survivors++;
        faults.push(`a mutant survives: it ${name}, and ${by.name} finds nothing`);
      }
      tell(`${first === undefined ? "SURVIVES" : "caught"}: ${name} (${by.name}: ${outcome.faults.length} faults)`);
      figures.push({
        what: `it ${name}`,
        value: first === undefined ? "survives" : `caught by \`${by.name}\``,
        ok: first !== undefined,
      });
    } finally {
      build.remove();
    }
  }
  return { faults, skipped, figures: [...figures, none("mutants that survive", survivors)] };
}

export const mutantsPart: Part = {
  name: "mutants",
  about: "the program made worse on purpose: each must be caught",
  rows: ["P1", "P2", "P5", "P6", "P13"],
  run,
};
