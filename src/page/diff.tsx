/** Differences of texts, line by line. Invariant: for long texts it is coarse before it is slow. */
import { Visible } from "./visible.tsx";

export interface DiffLine {
  sign: "+" | "-" | " " | "@";
  text: string;
}

/** Pairs of lines that are compared at most. */
const MOST = 250_000;

export function lineDiff(before: string, after: string): DiffLine[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++;
  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ sign: " ", text }));
  const middle = compare(old.slice(start, old.length - end), now.slice(start, now.length - end));
  return [...same(old.slice(0, start)), ...middle, ...same(old.slice(old.length - end))];
}

function compare(old: string[], now: string[]): DiffLine[] {
  const removed = old.map((text): DiffLine => ({ sign: "-", text }));
  const added = now.map((text): DiffLine => ({ sign: "+", text }));
  if (old.length * now.length > MOST) return [...removed, ...added];
  // Longest common subsequence, from the end.
  const width = now.length + 1;
  const best = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => best[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = now.length - 1; column >= 0; column--) {
      best[row * width + column] =
        old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: DiffLine[] = [];
  let row = 0;
  let column = 0;
  while (row < old.length && column < now.length) {
    if (old[row] === now[column]) {
      lines.push({ sign: " ", text: old[row] ?? "" });
      row++;
      column++;
    } else if (at(row + 1, column) >= at(row, column + 1)) lines.push({ sign: "-", text: old[row++] ?? "" });
    else lines.push({ sign: "+", text: now[column++] ?? "" });
  }
  return [...lines, ...removed.slice(row), ...added.slice(column)];
}

/** Lines that stay, on each side of a change; further ones are one line that says how many they are. */
const AROUND = 3;

export function folded(lines: readonly DiffLine[]): DiffLine[] {
  const near = new Set<number>();
  for (const [index, { sign }] of lines.entries()) {
    if (sign === " ") continue;
    for (let at = index - AROUND; at <= index + AROUND; at++) near.add(at);
  }
  const shown: DiffLine[] = [];
  let left = 0;
  for (const [index, line] of [...lines, undefined].entries()) {
    if (line && !near.has(index)) {
      left++;
      continue;
    }
    if (left > 0) shown.push({ sign: "@", text: `… ${left === 1 ? "a line" : `${left} lines`} as before` });
    left = 0;
    if (line) shown.push(line);
  }
  return shown;
}

/** A unified difference, as tools print it; undefined: the text is none. */
export function parseUnified(text: string): DiffLine[] | undefined {
  if (!/^(?:---|@@) /m.test(text) || !/^@@ /m.test(text)) return undefined;
  return text.split("\n").map((line) => {
    const sign = line[0];
    if (line.startsWith("@@") || line.startsWith("--- ") || line.startsWith("+++ ")) return { sign: "@", text: line };
    return sign === "+" || sign === "-" ? { sign, text: line.slice(1) } : { sign: " ", text: line.replace(/^ /, "") };
  });
}

const WORDS = { "+": "added", "-": "removed", " ": "", "@": "" } as const;
const CLASSES = { "+": "added", "-": "removed", " ": "same", "@": "place" } as const;

export function DiffView({ lines }: { lines: readonly DiffLine[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre class="diff" tabIndex={0} role="group" aria-label="Change">
      {lines.map(({ sign, text }, index) => (
        <span key={index} class={`diff-${CLASSES[sign]}`}>
          {WORDS[sign] !== "" && <span class="visually-hidden">{WORDS[sign]}: </span>}
          <span aria-hidden="true">{sign === "@" ? "" : sign}</span> <Visible text={text} />
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
