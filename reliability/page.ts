/**
 * The page of figures, docs/reliability.md, out of reliability/figures.json.
 *
 * Invariant: it says what the newest run of each part has found, faults and what could not be run included.
 */
import type { Figure } from "./part.ts";

export interface Figures {
  /** Node and cores. */
  machine: string;
  parts: Record<
    string,
    {
      about: string;
      rows: readonly string[];
      seed: number;
      seconds: number;
      figures: Figure[];
      faults: string[];
      skipped: string[];
    }
  >;
}

function cell(value: number | string): string {
  const text = typeof value === "number" ? value.toLocaleString("en-US") : value;
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

export function reliabilityPage({ machine, parts }: Figures): string {
  const sections = Object.entries(parts).map(([name, part]) => {
    const rows = part.figures.map(
      ({ what, value, goal = "", ok }) =>
        `| ${cell(what)} | ${cell(value)} | ${cell(goal)} | ${ok === undefined ? "" : ok ? "ok" : "missed"} |`,
    );
    const lines = [
      `## ${name}`,
      `${part.about[0]?.toUpperCase()}${part.about.slice(1)} (${part.rows.join(", ")}). Seed ${part.seed}, ${part.seconds} s.`,
      ...(rows.length > 0 ? [["| | | goal | |", "| --- | --- | --- | --- |", ...rows].join("\n")] : []),
      ...part.faults.slice(0, 5).map((fault) => `Broken: ${cell(fault).slice(0, 300)}`),
      ...part.skipped.map((lack) => `Not run: ${cell(lack)}`),
    ];
    return lines.join("\n\n");
  });
  return `# Reliability

Made by \`npm run reliability -- --write\` and \`node scripts/check-docs.ts --write\`; do not edit. ${machine}.

What happens to what was acknowledged when the worst comes. Each part can be run alone, and again with the same seed:
\`npm run reliability -- kills --seed 7 --cycles 10000\`. A part judges by what stands outside the process that it
torments: the history of its clients, files that tools have written, the database read by another process. The letters
and numbers are rows of the table of faults (P: process, disk, clock).

${sections.join("\n\n")}
`;
}
