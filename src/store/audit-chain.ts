/**
 * The audit log's chain: what a record's hash is taken of, and whether records that were read fit each other.
 *
 * Invariant: a log that was changed by other means is added to all the same, and never in a way that mends the break.
 */
import { hash } from "node:crypto";
import type { AuditAction, AuditEntry, AuditRecord } from "../types/audit.ts";

export interface AuditRow {
  sequence: number;
  hash: string;
  body: string;
}

export interface AuditEnd {
  sequence: number;
  hash: string;
}

const BEFORE_THE_FIRST = "0".repeat(64);
/** What no record's hash is: the one after a break does not fit, and stays so. */
const BROKEN = "";

function chained(before: string, body: string): string {
  return hash("sha256", before + body);
}

/** Whether a record does not follow on the one whose hash was `before`. */
export function chainFault(before: string, own: string, body: string): boolean {
  return chained(before, body) !== own;
}

/** What the next record comes after. `there`: the highest number in the log. */
export function lastOf(end: AuditEnd | undefined, there: number): AuditEnd {
  // Records that are gone leave a gap; a note that is gone, or one that knows less than there is, leaves a break.
  return end && end.sequence >= there ? end : { sequence: there, hash: BROKEN };
}

/** The rows of new records, in their order. */
export function chain(last: AuditEnd, entries: readonly AuditEntry[]): AuditRow[] {
  let before = last;
  return entries.map(({ action, who, door, responseId, at, details }) => {
    const body = JSON.stringify({ action, who, door, responseId, at, details });
    const row = { sequence: before.sequence + 1, hash: chained(before.hash, body), body };
    before = row;
    return row;
  });
}

/** `before`: the row before the first one; undefined where there is none, though there should be. */
export function recordsOf(rows: readonly AuditRow[], before: AuditEnd | undefined): AuditRecord[] {
  let last = rows[0] === undefined || rows[0].sequence === 1 ? { sequence: 0, hash: BEFORE_THE_FIRST } : before;
  return rows.map((row) => {
    const intact = last?.sequence === row.sequence - 1 && chained(last.hash, row.body) === row.hash;
    last = row;
    const { action, who, door, responseId, at, details } = entryOf(row.body);
    return { action, who, door, responseId, at, details, sequence: row.sequence, hash: row.hash, intact };
  });
}

function entryOf(text: string): AuditEntry {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && "details" in value) return value as AuditEntry;
  } catch {
    // Told below.
  }
  // Somebody has changed the text; the record is shown nevertheless, and is not intact.
  const action = "unreadable" as AuditAction;
  return { action, who: "", door: "", responseId: null, at: 0, details: { text } };
}
