/**
 * What a part of the suite is given and gives back, and the seeded chance that all of them share.
 *
 * Invariant: a part judges by what stands outside the process that it torments: a client's history, files of effects,
 * the database read by another process. What it found is either a figure or a fault, never a silence.
 */
import type { Build } from "./build.ts";

export interface Setting {
  /** The program under test: this tree's, or a mutant's. */
  build: Build;
  seed: number;
  /** How often the part does to the program what it does to it. Undefined: the part's own number for CI. */
  cycles: number | undefined;
  /** One fault is enough: the part may end with the first. */
  first?: boolean;
  /** `sqlite`, or the address of a database server. */
  database: string;
  /** One line of progress. */
  tell(text: string): void;
}

export interface Figure {
  what: string;
  value: number | string;
  /** What it should be, in words: "0", "≤ 2 s". */
  goal?: string;
  /** False: the goal was missed. */
  ok?: boolean;
  /** It is a time: a slow machine misses it without a promise being broken. */
  time?: true;
}

export interface Outcome {
  figures: Figure[];
  /** Promises that were broken, each with all that is known of it. */
  faults: string[];
  /** What this machine lacks: said aloud, and written down. */
  skipped?: string[];
}

export interface Part {
  /** For the command line. */
  name: string;
  /** What it shows, in one line. */
  about: string;
  /** Rows of the table of faults that it proves. */
  rows: readonly string[];
  run(setting: Setting): Promise<Outcome>;
}

/** Numbers that look like chance and are the same for the same seed (mulberry32). */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  one<T>(list: readonly T[]): T {
    const chosen = list[this.between(0, list.length - 1)];
    if (chosen === undefined) throw new Error("there is nothing to choose from");
    return chosen;
  }
}

/** A goal of a count that must be nothing. */
export function none(what: string, value: number): Figure {
  return { what, value, goal: "0", ok: value === 0 };
}

/** The value below which this share of the values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Runs tasks with so many at once, in the order given. */
export async function together<T>(tasks: readonly T[], atOnce: number, run: (task: T) => Promise<void>): Promise<void> {
  const left = [...tasks];
  const worker = async () => {
    for (let task = left.shift(); task !== undefined; task = left.shift()) await run(task);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
