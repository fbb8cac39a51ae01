/**
 * `npm run reliability [-- part …] [--seed N] [--cycles N] [--database ADDRESS] [--write]`: what happens to what was
 * acknowledged when the worst comes.
 *
 * Invariant: the exit code is 0 only where every part that was run has found every promise kept; a part that this
 * machine cannot run says so aloud. `--write` puts the figures into reliability/figures.json.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeBuild } from "./build.ts";
import { clock } from "./clock.ts";
import { commits } from "./commits.ts";
import { damage } from "./damage.ts";
import { endServer } from "./database.ts";
import { disk } from "./disk.ts";
import { drain } from "./drain.ts";
import { interleavings } from "./interleavings.ts";
import { kills } from "./kills.ts";
import { mutantsPart } from "./mutants.ts";
import type { Figures } from "./page.ts";
import type { Part } from "./part.ts";
import { poison } from "./poison.ts";
import { power } from "./power.ts";
import { processes } from "./processes.ts";
import { soakPart } from "./soak.ts";
import { upgrade } from "./upgrade.ts";

const parts: readonly Part[] = [
  commits,
  kills,
  damage,
  disk,
  processes,
  clock,
  drain,
  poison,
  upgrade,
  power,
  interleavings,
  soakPart,
  mutantsPart,
];

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string" },
    cycles: { type: "string" },
    database: { type: "string", default: "sqlite" },
    write: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});

const say = (text: string) => void process.stderr.write(`${text}\n`);
const unknown = positionals.filter((name) => !parts.some((part) => part.name === name));
if (unknown.length > 0) {
  say(`there is no part ${unknown.join(", ")}; there are:`);
  for (const { name, about } of parts) say(`  ${name.padEnd(14)} ${about}`);
  process.exit(2);
}

const seed = Number(flags.seed ?? Date.now() % 1_000_000);
const wanted = positionals.length === 0 ? parts : parts.filter(({ name }) => positionals.includes(name));
const results: Figures["parts"] = {};
const build = await makeBuild();
try {
  for (const part of wanted) {
    say(`${part.name}: ${part.about} (seed ${seed})`);
    const began = performance.now();
    results[part.name] = await result(part);
    const { faults, skipped, figures } = results[part.name] ?? { faults: [], skipped: [], figures: [] };
    for (const figure of figures) {
      say(
        `  ${figure.ok === false ? "✗" : "·"} ${figure.what}: ${figure.value}${figure.goal ? ` (${figure.goal})` : ""}`,
      );
    }
    for (const fault of faults.slice(0, 20)) say(`  ✗ ${fault}`);
    for (const lack of skipped) say(`  SKIPPED: ${lack}`);
    say(`  ${faults.length === 0 ? "kept" : "BROKEN"}, ${Math.round((performance.now() - began) / 1_000)} s`);
  }
} finally {
  build.remove();
  await endServer();
}

async function result(part: Part): Promise<Figures["parts"][string]> {
  const began = performance.now();
  const { name, about, rows } = part;
  const cycles = flags.cycles === undefined ? undefined : Number(flags.cycles);
  const tell = (text: string) => say(`  ${name}: ${text}`);
  const outcome = await part.run({ build, seed, cycles, database: flags.database, tell }).catch((error: unknown) => ({
    figures: [],
    faults: [error instanceof Error ? (error.stack ?? error.message) : String(error)],
    skipped: [],
  }));
  const { figures, faults, skipped = [] } = outcome;
  for (const figure of figures)
    if (figure.ok === false && !figure.time && faults.length === 0) faults.push(`missed: ${figure.what}`);
  return { about, rows, seed, seconds: Math.round((performance.now() - began) / 1_000), figures, faults, skipped };
}

if (flags.json) process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
if (flags.write) {
  const path = fileURLToPath(new URL("./figures.json", import.meta.url));
  let before: Figures["parts"] = {};
  try {
    before = (JSON.parse(readFileSync(path, "utf8")) as Figures).parts;
  } catch {
    // The first figures.
  }
  const machine = `Node ${process.versions.node}, ${availableParallelism()} cores`;
  const all = { ...before, ...results };
  const sorted = Object.fromEntries(parts.flatMap(({ name }) => (all[name] ? [[name, all[name]]] : [])));
  writeFileSync(path, `${JSON.stringify({ machine, parts: sorted }, null, 2)}\n`);
}
process.exitCode = Object.values(results).some(({ faults }) => faults.length > 0) ? 1 : 0;
