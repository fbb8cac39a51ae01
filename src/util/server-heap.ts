/**
 * The heap of a server: V8's own sizes are made for programs that have the machine to themselves.
 *
 * Invariant: only how often the garbage is collected changes, and only where the person who started the process has
 * not chosen sizes.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** Megabytes of each half of the young generation at which it stops to grow: a thousand streams do not need more. */
const HALF = 24;
/** Milliseconds between two looks at its size. */
const LOOK = 200;

/** For a process that lives long: some percent more work for the collector, a third less memory. */
export function keepHeapSmall(): void {
  const given = [...process.execArgv, process.env.NODE_OPTIONS ?? ""].join(" ").replaceAll("_", "-");
  if (/semi-space|heap-growing|old-space/.test(given)) return;
  // Garbage in the old generation is three quarters of what lives there before it is collected, not three times as much.
  setFlagsFromString("--heap-growing-percent=75");
  // The limit of the young one cannot be set any more, only the step in which it grows; it shrinks when little happens.
  let step = 0;
  const look = () => {
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
    const half = Math.max(1, Math.round((young?.space_size ?? 0) / 2 ** 21));
    const next = Math.max(1, Math.floor(HALF / half));
    if (next !== step) setFlagsFromString(`--semi-space-growth-factor=${next}`);
    step = next;
  };
  look();
  setInterval(look, LOOK).unref();
}
