/** Lengths of time as people write them: 90m, 12h, 30d, 4w, 1y. */

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, y: 31_536_000_000 };

/** What `keep` can be. */
export const keepPattern = /^(?:forever|[1-9]\d{0,5}[mhdwy])$/;

/** Milliseconds; undefined: it is no length of time. */
export function durationOf(text: string): number | undefined {
  const [, amount = "", unit = ""] = /^(\d{1,6})([mhdwy])$/.exec(text.trim()) ?? [];
  const milliseconds = Number(amount) * (UNITS[unit] ?? 0);
  return milliseconds > 0 ? milliseconds : undefined;
}

/** As `durationOf`, and seconds too (10s): for what is to begin soon, or is gone for good at once. */
export function delayOf(text: string): number | undefined {
  const [, seconds] = /^(\d{1,6})s$/.exec(text.trim()) ?? [];
  return seconds === undefined ? durationOf(text) : Number(seconds) * 1_000 || undefined;
}

/** Milliseconds; "forever" and whatever is no length of time: infinity. */
export function keepOf(text: string): number {
  return durationOf(text) ?? Number.POSITIVE_INFINITY;
}
