/** Commands about the audit log: audit, audit verify. */
import type { AuditRecord } from "../../types/audit.ts";
import type { Store } from "../../types/store.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

/** Records that are read at a time. */
const PAGE = 1_000;

export async function auditList(
  context: CommandContext,
  { limit, json }: { limit: number; json?: boolean },
): Promise<number> {
  const { store } = await context.app();
  const records = await newest(store, limit);
  const { out, err, outStyle } = context.streams;
  if (json) {
    out(`${JSON.stringify(records)}\n`);
    return 0;
  }
  if (records.length === 0) err("Nothing was recorded yet.\n");
  for (const { sequence, at, action, who, door, responseId, details, intact } of records) {
    // A record that somebody has changed may hold anything.
    const time = Math.abs(Number(at)) < 8.64e15 ? new Date(at).toISOString() : "?";
    const what = oneLine(JSON.stringify(details), 200);
    const about = responseId === null ? "" : `  ${responseId}`;
    const mark = intact ? "" : `  ${outStyle.red("does not fit the chain: rotunda audit verify")}`;
    out(`${sequence}  ${time}  ${visible(`${action}  ${who}  ${door}${about}  ${what}`)}${mark}\n`);
  }
  return 0;
}

async function newest(store: Store, limit: number): Promise<AuditRecord[]> {
  const end = await store.auditEnd();
  let records: AuditRecord[] = [];
  for (let after = Math.max(0, (end?.sequence ?? 0) - limit); ; ) {
    const page = await store.audits(after, PAGE);
    records = [...records, ...page].slice(-limit);
    const last = page.at(-1);
    if (!last) return records;
    after = last.sequence;
  }
}

/** Exit code 1: the chain is broken somewhere. */
export async function auditVerify(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const { store } = await context.app();
  const { records, hash, fault } = await verify(store);
  if (flags.json) context.streams.out(`${JSON.stringify({ records, hash, intact: fault === null, fault })}\n`);
  else if (fault === null)
    context.streams.out(`${counted(records, "record")}, the chain is whole; the last hash is ${hash}\n`);
  else context.streams.out(`broken: ${fault}\n`);
  return fault === null ? 0 : 1;
}

interface Verdict {
  /** How many were found in order. */
  records: number;
  /** Of the last one that was found in order. */
  hash: string;
  /** The first fault, or null. */
  fault: string | null;
}

async function verify(store: Store): Promise<Verdict> {
  let last = { sequence: 0, hash: "0".repeat(64) };
  const verdict = (fault: string | null): Verdict => ({ records: last.sequence, hash: last.hash, fault });
  for (;;) {
    let page = await store.audits(last.sequence, PAGE);
    if (page.length === 0) {
      const end = await store.auditEnd();
      if (end?.sequence === last.sequence && end.hash === last.hash) return verdict(null);
      // Somebody may have added one between the two questions.
      page = await store.audits(last.sequence, PAGE);
      if (page.length === 0) return verdict(faultAtEnd(last, end));
    }
    for (const { sequence, hash, intact } of page) {
      if (sequence !== last.sequence + 1) return verdict(`record ${last.sequence + 1} is missing`);
      if (!intact) return verdict(`record ${sequence} does not fit its hash`);
      last = { sequence, hash };
    }
  }
}

function faultAtEnd(last: { sequence: number; hash: string }, end: Awaited<ReturnType<Store["auditEnd"]>>): string {
  if (!end) return `the note of the log's end is gone; the last record found is ${last.sequence}`;
  if (end.sequence > last.sequence) {
    return `record ${last.sequence + 1} is missing: ${end.sequence} were written, ${last.sequence} are there`;
  }
  return `record ${last.sequence} is not the one that was written last`;
}
