/**
 * What a measurement gives, and the arithmetic that all of them share.
 *
 * Invariant: a row is compared with a bare Node program that did the same work in the same run, in turns with
 * ours, so that a machine that is slow or busy slows both.
 */

export interface Row {
  /** What was measured, with its unit. */
  name: string;
  /** Ours, in the row's unit. */
  ours: number;
  /** The bare program's; null where there is nothing to compare with. */
  bare: number | null;
  unit: "ms" | "µs" | "KB" | "MB";
  /** The measured value that the goal speaks of. */
  value: number;
  /** "×" where the goal is a ratio. */
  valueUnit: "×" | "ms" | "KB" | "MB";
  goal: number;
  /** What the row depends on, in one line. */
  note?: string;
}

export interface Settings {
  /** Fewer repetitions, for a look. */
  quick: boolean;
}

export interface Measurement {
  /** For `--only`. */
  name: string;
  run(settings: Settings): Promise<Row[]>;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  const lower = sorted[(sorted.length - 1) >> 1];
  if (upper === undefined || lower === undefined) throw new Error("nothing was measured");
  return (lower + upper) / 2;
}

/** The median of the differences of each round: what slowed the machine for a while slowed both. */
export function medianDifference(values: readonly number[], others: readonly number[]): number {
  return median(values.map((value, round) => value - (others[round] ?? Number.NaN)));
}

/** Runs each of the tasks `count` times, in turns; gives the values of each. The first round is not counted. */
export async function inTurns<Key extends string>(
  count: number,
  tasks: Record<Key, () => Promise<number>>,
): Promise<Record<Key, number[]>> {
  const keys = Object.keys(tasks) as Key[];
  const values = Object.fromEntries(keys.map((key) => [key, []])) as unknown as Record<Key, number[]>;
  for (let round = -1; round < count; round++) {
    // Each goes first as often as the others: what follows something heavy finds a warmer, or a busier, machine.
    for (const key of round % 2 === 0 ? keys : [...keys].reverse()) {
      const value = await tasks[key]();
      if (round >= 0) values[key].push(value);
    }
  }
  return values;
}
