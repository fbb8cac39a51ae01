/**
 * Whether a copy of a response can be trusted, and what becomes of it in another database.
 *
 * Invariant: nothing passes whose texts do not give its hash, that could not have been written here, or whose log says
 * something else than its items. Both databases ask here, so that they refuse the same.
 */

import type { EntryCopy, FoundCopy, Pasted, ResponseCopy } from "../types/copy.ts";
import { RotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import { isJsonObject } from "../types/json.ts";
import { isId } from "../util/ids.ts";
import { logFaultOf } from "./log-check.ts";
import { ERASED, entryOf, hashOf, type NodeRow, nodeOf, OUTPUT, PLACES } from "./rows.ts";

const ENDED = ["completed", "incomplete", "failed", "cancelled"];

/** What a database has of a response. */
export interface Standing {
  id: string;
  hash: string | null;
  ended_at: number | null;
  /** Its content is gone. */
  erased: boolean;
}

type Verdict = Exclude<Pasted, { kind: "renamed" }> | undefined;

/** A row of a response as a copy, still without what belongs to it. */
export function bareCopy(row: NodeRow & { parent_hash: string | null }): ResponseCopy {
  return {
    id: row.id,
    owner: row.owner,
    previous_response_id: row.previous_response_id,
    parent_hash: row.parent_hash,
    caller_response_id: row.caller_response_id,
    caller_item_id: row.caller_item_id,
    conversation_id: row.conversation_id,
    status: row.status,
    body: row.body,
    created_at: row.created_at,
    ended_at: row.ended_at,
    deleted_at: row.deleted_at,
    hash: row.hash,
    entries: [],
    events: [],
    outputs: [],
    approvals: [],
  };
}

/** What is read of it: of an open one nothing, of an erased one its hash, of a deleted one its items. */
export function partsOf({ ended_at, deleted_at, body }: ResponseCopy): { items: boolean; log: boolean } {
  const isThere = ended_at !== null && body !== ERASED;
  return { items: isThere, log: isThere && deleted_at === null };
}

export function foundCopy(number: number, copy: ResponseCopy): FoundCopy {
  return { number, copy, fault: copy.ended_at === null ? null : (faultOf(copy) ?? null) };
}

/** Why a copy of an ended response cannot be trusted. Undefined: it can. */
export function faultOf(copy: ResponseCopy): string | undefined {
  try {
    const shape = shapeFault(copy);
    if (shape !== undefined) return `${shape} is not what can have been stored`;
    if (copy.body === ERASED) return undefined;
    const row: NodeRow = { ...copy, number: 0 };
    const node = nodeOf(row);
    if (![node.workspace, node.profile, node.model, node.door].every(isText) || !isJsonObject(node.settings)) {
      return "its body is not what can have been stored";
    }
    const items: Item[] = [];
    for (const entry of copy.entries) {
      const { item } = entryOf(entry, copy.id);
      if (!isJsonObject(item) || !isText(item.id) || !isText(item.type)) return "one of its items is none";
      if (entry.side === 1) items[entry.position] = item;
    }
    if (copy.hash !== null && hashOf(row, copy.entries, copy.parent_hash) !== copy.hash) {
      return "its content does not match its hash";
    }
    return copy.deleted_at === null ? logFaultOf(copy.events, items, true) : undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Which part of a copy has a form that nobody writes. */
function shapeFault(copy: ResponseCopy): string | undefined {
  const { entries, events, outputs, approvals } = copy;
  if (!isId(copy.id) || !copy.id.startsWith("resp_")) return "its id";
  const texts = [copy.owner, copy.status, copy.body];
  const places = [copy.previous_response_id, copy.parent_hash, copy.caller_response_id, copy.caller_item_id];
  const optional = [...places, copy.conversation_id, copy.hash];
  if (!texts.every(isText) || !optional.every((text) => text === null || isText(text))) return "its row";
  if (copy.owner === "" || !ENDED.includes(copy.status)) return "its status";
  if (!isCount(copy.created_at) || !isCount(copy.ended_at)) return "its time";
  if (copy.deleted_at !== null && !isCount(copy.deleted_at)) return "its time";
  if (copy.parent_hash !== null && copy.previous_response_id === null) return "its parent's hash";
  if (![entries, events, outputs, approvals].every(Array.isArray)) return "its content";
  const parts = partsOf(copy);
  if (!parts.items && (entries.length > 0 || copy.deleted_at === null)) return "what was erased of it";
  if (!parts.log && events.length + outputs.length + approvals.length > 0) return "what was deleted of it";
  if (!areEntries(entries)) return "the order of its items";
  // A log that leaves no room for its numbers would run into the next response's.
  if (!events.every(({ first, last, body }) => isCount(first) && isCount(last) && last < PLACES && isText(body))) {
    return "its log";
  }
  if (!outputs.every(({ item_id, text }) => isText(item_id) && isText(text))) return "one of its outputs";
  return approvals.every((one) => isApproval(one, copy.id)) ? undefined : "one of its approvals";
}

function areEntries(entries: readonly EntryCopy[]): boolean {
  let before = -1;
  return entries.every(({ side, position, turn, item, meta }) => {
    const isPlace = (side === 0 || side === 1) && isCount(position) && position < OUTPUT;
    const place = side * OUTPUT + position;
    const isNext = isPlace && place > before && isCount(turn) && isText(item) && isText(meta);
    before = place;
    return isNext;
  });
}

function isApproval({ id, status, body }: ResponseCopy["approvals"][number], responseId: string): boolean {
  if (!isText(id) || !isText(body)) return false;
  const value: unknown = JSON.parse(body);
  return isJsonObject(value) && value.id === id && value.responseId === responseId && value.status === status;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** Those before the first one that cannot be trusted, and why it is refused. */
export function soundOnes(copies: readonly ResponseCopy[]): { sound: ResponseCopy[]; refusal?: RotundaError } {
  const sound: ResponseCopy[] = [];
  for (const copy of copies) {
    const fault = faultOf(copy);
    if (fault !== undefined) return { sound, refusal: refused(copy, fault) };
    sound.push(copy);
  }
  return { sound };
}

const refusals = new WeakSet<object>();

/** What `judge` has thrown, and not the database. */
export function isRefusal(error: unknown): boolean {
  return typeof error === "object" && error !== null && refusals.has(error);
}

/** Judges the copies of one page, in their order. */
export class Judge {
  readonly #out = new Set<string>();

  /**
   * What becomes of a copy that can be trusted, beside what is here under its id and its parent's. Undefined: it is
   * written. Throws `storage_damaged`.
   */
  judge(copy: ResponseCopy, own: Standing | undefined, parent: Standing | undefined): Verdict {
    const above = [copy.previous_response_id, copy.caller_response_id].find((id) => id !== null && this.#out.has(id));
    const stays: Verdict = above == null ? undefined : { kind: "left", why: `it stands on ${above}, which stays out` };
    const verdict = stays ?? verdictOf(copy, own, parent);
    if (verdict?.kind === "left") this.#out.add(copy.id);
    return verdict;
  }
}

function verdictOf(copy: ResponseCopy, own: Standing | undefined, parent: Standing | undefined): Verdict {
  if (own) {
    // Neither has a hash where it was cancelled before its turn came: then both are the same.
    if (own.ended_at !== null && own.hash === copy.hash) return { kind: "known" };
    throw refused(copy, "another response with this id is here already");
  }
  if (copy.previous_response_id === null) return undefined;
  if (!parent) throw refused(copy, `${copy.previous_response_id}, which it goes on from, is missing`);
  if (parent.ended_at === null || parent.hash !== copy.parent_hash) {
    throw refused(copy, `it does not fit the hash of ${parent.id}, which it goes on from`);
  }
  if (!parent.erased || copy.body === ERASED) return undefined;
  return { kind: "left", why: `it goes on from ${parent.id}, which was deleted here` };
}

function refused({ id }: ResponseCopy, why: string): RotundaError {
  const name = isText(id) ? id.slice(0, 80) : "?";
  const error = new RotundaError("storage_damaged", `response ${name} is refused: ${why}`, {
    remedy: "What came before it is here, whole, and nothing after it. Copy it anew from where it is sound.",
  });
  refusals.add(error);
  return error;
}
