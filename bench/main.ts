/**
 * `npm run bench [-- --only NAME] [--quick] [--json] [--write]`: how fast Rotunda is, against a bare Node
 * program that does the same requests, measured in the same run.
 *
 * Invariant: the table shows what was measured, also where a goal is missed; the exit code is 0 unless a
 * measurement could not be made. `--write` puts the table into docs/benchmarks.md.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { cluster, commits } from "./cluster.ts";
import { gateway } from "./gateway.ts";
import { crowd, longConversation, step } from "./in-process.ts";
import type { Measurement, Row } from "./measurement.ts";
import { bytes, memory, servers, startUp } from "./one-shot.ts";
import { here } from "./processes.ts";
import { ready, stored, streams, turns, waiting } from "./serving.ts";
import { terminalScreen, terminalStart } from "./terminal.ts";
import { version } from "./version.ts";

const measurements: readonly Measurement[] = [
  version,
  startUp,
  terminalStart,
  terminalScreen,
  step,
  longConversation,
  crowd,
  bytes,
  servers,
  memory,
  turns,
  waiting,
  streams,
  stored,
  ready,
  gateway,
  commits,
  cluster,
];

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});

const header = ["measured", "ours", "bare", "value", "goal", ""];

const rows: Row[] = [];
const failures: string[] = [];
const names = measurements.map(({ name }) => name);
for (const unknown of (flags.only ?? []).filter((name) => !names.includes(name))) {
  failures.push(`there is no measurement ${unknown}; there are: ${names.join(", ")}`);
}
for (const measurement of measurements) {
  if (flags.only && !flags.only.includes(measurement.name)) continue;
  process.stderr.write(`${measurement.name} …\n`);
  try {
    rows.push(...(await measurement.run({ quick: flags.quick })));
  } catch (error) {
    failures.push(`${measurement.name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
process.stdout.write(flags.json ? `${JSON.stringify(rows, null, 2)}\n` : table(rows));
if (flags.write) writeDocument(rows);
for (const failure of failures) process.stderr.write(`not measured: ${failure}\n`);
process.exitCode = failures.length > 0 ? 1 : 0;

function isMet({ value, goal }: Row): boolean {
  return value <= goal;
}

function show(value: number, unit: string): string {
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return unit === "×" ? `${value.toFixed(2)}×` : `${value.toFixed(digits)} ${unit}`;
}

function cells(row: Row): string[] {
  return [
    row.name,
    show(row.ours, row.unit),
    row.bare === null ? "" : show(row.bare, row.unit),
    show(row.value, row.valueUnit),
    `≤ ${show(row.goal, row.valueUnit)}`,
    isMet(row) ? "ok" : "over",
  ];
}

function table(measured: readonly Row[]): string {
  const lines = [header, ...measured.map(cells)];
  const widths = header.map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  const pad = (text: string, at: number) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0));
  return lines.map((line) => `${line.map(pad).join("  ").trimEnd()}\n`).join("");
}

/** Rows of the page by what they measured: those that were not measured this time stay as they are. */
function knownRows(path: string): Map<string, string> {
  const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const rows = lines.filter((line) => line.startsWith("| ") && !/^\| (?:measured|---) \|/.test(line));
  return new Map(rows.map((line) => [line.split(" | ")[0]?.slice(2) ?? "", line]));
}

function writeDocument(measured: readonly Row[]): void {
  const path = here("../docs/benchmarks.md");
  const known = flags.only ? knownRows(path) : new Map<string, string>();
  for (const row of measured) {
    const ratio = row.bare === null ? "–" : `${(row.ours / row.bare).toFixed(2)}×`;
    const [name = "", , , value = "", goal = "", state = ""] = cells(row);
    known.set(name, `| ${name} | ${ratio} | ${value} | ${goal} | ${state} | ${row.note ?? ""} |`);
  }
  const lines = [...known.values()];
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(
    path,
    `# Benchmarks

Made by \`npm run bench -- --write\`; do not edit. Node ${process.versions.node}, ${availableParallelism()} cores (${cpus()[0]?.model ?? "unknown"}).

"Ratio" is ours against a bare Node program that does the same requests (or what the note says), in turns with
it, in the same run: it does not depend on the machine. Milliseconds and bytes do.

| measured | ratio | value | goal | | note |
| --- | --- | --- | --- | --- | --- |
${lines.join("\n")}
`,
  );
}
