/**
 * A small line diff in unified form, for people's eyes.
 *
 * Invariant: its time is bounded by `MAX_CELLS`; beyond it, the part that differs is shown as replaced as a whole.
 */

const CONTEXT = 3;
const MAX_CELLS = 1_000_000;
const MAX_LINES = 400;

interface Line {
  mark: " " | "-" | "+";
  text: string;
}

/**
 * The differences of two texts, at most some hundred lines; empty when there are none. `whole`: nothing is left out,
 * neither lines that are the same nor lines beyond those.
 */
export function unifiedDiff(path: string, before: string, after: string, whole = false): string {
  if (before === after) return "";
  const lines = compare(split(before), split(after));
  const shown = hunks(lines, whole ? lines.length : CONTEXT);
  const cut =
    shown.length > MAX_LINES && !whole
      ? [...shown.slice(0, MAX_LINES), `… ${shown.length - MAX_LINES} more lines`]
      : shown;
  return [`--- a/${path}`, `+++ b/${path}`, ...cut].join("\n");
}

function split(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function compare(before: string[], after: string[]): Line[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const most = Math.min(before.length, after.length) - start;
  while (end < most && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const same = (lines: string[]): Line[] => lines.map((text) => ({ mark: " ", text }));
  return [
    ...same(before.slice(0, start)),
    ...middle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...same(before.slice(before.length - end)),
  ];
}

/** By the longest common subsequence. */
function middle(before: string[], after: string[]): Line[] {
  const removed = (text: string): Line => ({ mark: "-", text });
  const added = (text: string): Line => ({ mark: "+", text });
  if (before.length * after.length > MAX_CELLS) return [...before.map(removed), ...after.map(added)];
  const width = after.length + 1;
  const lengths = new Uint32Array((before.length + 1) * width);
  const at = (row: number, column: number) => lengths[row * width + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      const equal = before[row] === after[column];
      lengths[row * width + column] = equal
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: Line[] = [];
  let row = 0;
  let column = 0;
  while (row < before.length || column < after.length) {
    const old = before[row];
    const fresh = after[column];
    if (old !== undefined && old === fresh) {
      lines.push({ mark: " ", text: old });
      row++;
      column++;
    } else if (old !== undefined && (fresh === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push(removed(old));
      row++;
    } else if (fresh !== undefined) {
      lines.push(added(fresh));
      column++;
    }
  }
  return lines;
}

/** Changed lines with the lines around them, and where they are. */
function hunks(lines: readonly Line[], context: number): string[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.mark === " ") return;
    near.fill(1, Math.max(0, index - context), index + context + 1);
  });
  const result: string[] = [];
  let old = 1;
  let fresh = 1;
  for (let index = 0; index < lines.length; ) {
    if (near[index] === 0) {
      old++;
      fresh++;
      index++;
      continue;
    }
    let end = index;
    while (near[end] === 1) end++;
    const hunk = lines.slice(index, end);
    const oldCount = hunk.filter(({ mark }) => mark !== "+").length;
    const freshCount = hunk.filter(({ mark }) => mark !== "-").length;
    const place = (first: number, count: number) => `${count === 0 ? first - 1 : first},${count}`;
    result.push(
      `@@ -${place(old, oldCount)} +${place(fresh, freshCount)} @@`,
      ...hunk.map(({ mark, text }) => mark + text),
    );
    old += oldCount;
    fresh += freshCount;
    index = end;
  }
  return result;
}
