/** Numbers, money and times as people read them. Invariant: the same everywhere on the page, and never longer than needed. */
import { shown } from "./visible.tsx";
import type { RunStatus } from "./wire.ts";

export function count(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 10_000) return `${(value / 1_000).toFixed(1)}k`;
  if (value < 1_000_000) return `${Math.round(value / 1_000)}k`;
  return `${(value / 1_000_000).toFixed(value < 10_000_000 ? 1 : 0)}M`;
}

/** US dollars. */
export function money(value: number): string {
  if (value === 0) return "$0";
  if (value < 0.01) return `$${value.toFixed(4)}`;
  return value < 100 ? `$${value.toFixed(2)}` : `$${Math.round(value)}`;
}

export function bytes(value: number): string {
  if (value < 1_000) return `${value} B`;
  return value < 1_000_000 ? `${Math.round(value / 1_000)} kB` : `${(value / 1_000_000).toFixed(1)} MB`;
}

/** From milliseconds. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 9_950) return `${(milliseconds / 1_000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Today the time, else the day. From milliseconds since the epoch. */
export function when(at: number): string {
  if (at === 0) return "";
  const then = new Date(at);
  const now = new Date();
  if (then.toDateString() === now.toDateString()) return clock.format(then);
  return `${date.format(then)}, ${clock.format(then)}`;
}

export function exactly(at: number): string {
  return at === 0 ? "" : whole.format(new Date(at));
}

/** "Today", "Yesterday", or a day. */
export function dayOf(at: number): string {
  const then = new Date(at);
  const now = new Date();
  if (then.toDateString() === now.toDateString()) return "Today";
  const before = new Date(now.getTime() - 86_400_000);
  if (then.toDateString() === before.toDateString()) return "Yesterday";
  return date.format(then);
}

const STATUS: Record<RunStatus, string> = {
  queued: "queued",
  in_progress: "running",
  waiting: "waiting",
  completed: "completed",
  incomplete: "incomplete",
  failed: "failed",
  cancelled: "cancelled",
};

export function statusWord(status: RunStatus): string {
  return STATUS[status] ?? status;
}

/** The door that the page itself comes through. */
export const OWN_DOOR = "http";

const DOORS: Record<string, string> = {
  tui: "the terminal",
  cli: "the command line",
  http: "HTTP",
  acp: "an editor",
  mcp: "MCP",
  schedule: "a schedule",
};

/** Through which door something came, in words. */
export function doorWord(door: string): string {
  return DOORS[door] ?? shown(door);
}

/** Of a path, what people call it by. */
export function folderName(path: string): string {
  return path.split(/[/\\]/).findLast((part) => part !== "") ?? path;
}

/** The ending by which people call an id. */
export function shortId(id: string): string {
  return id.slice(-8);
}
