/**
 * Cells: values that are watched.
 *
 * Invariant: whoever watches is told of the newest value and not of each one: changes that come within one frame are
 * one change. A hidden tab has no frames, so a timer stands behind them.
 */
import { useLayoutEffect, useReducer } from "preact/hooks";

const waiting = new Set<Cell<unknown>>();
let planned = false;
/** Milliseconds after which those who watch are told, frame or no frame. */
const LATEST = 100;

function plan(): void {
  if (planned) return;
  planned = true;
  let done = false;
  const tell = () => {
    if (done) return;
    done = true;
    planned = false;
    const cells = [...waiting];
    waiting.clear();
    for (const cell of cells) cell.tell();
  };
  requestAnimationFrame(tell);
  setTimeout(tell, LATEST);
}

export class Cell<T> {
  #value: T;
  readonly #listeners = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    if (this.#listeners.size === 0) return;
    waiting.add(this as Cell<unknown>);
    plan();
  }

  /** Returns what ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** The value of a cell, in a component that is drawn anew when it changes. */
export function useCell<T>(cell: Cell<T>): T {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const drawn = cell.value;
  useLayoutEffect(() => {
    const seen = { value: drawn };
    const look = () => {
      if (Object.is(seen.value, cell.value)) return;
      seen.value = cell.value;
      redraw(undefined);
    };
    look();
    return cell.subscribe(look);
  }, [cell]);
  return drawn;
}
