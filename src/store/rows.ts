/**
 * Rows: how a node and its entries are written as rows, and the hash that seals an ended node.
 *
 * Invariant: the hash is taken over the very texts that are stored, so that it can be checked without
 * knowing what they mean, on any database, by any later version.
 */
import { hash } from "node:crypto";
import { RotundaError } from "../types/error.ts";
import type { Entry, Item, Usage } from "../types/item.ts";
import type { ResponseNode, Status } from "../types/response.ts";

/** A node, on any database. */
export interface NodeRow {
  number: number;
  id: string;
  owner: string;
  previous_response_id: string | null;
  caller_response_id: string | null;
  caller_item_id: string | null;
  conversation_id: string | null;
  status: string;
  body: string;
  created_at: number;
  ended_at: number | null;
  deleted_at: number | null;
  hash: string | null;
}

export interface ResponseRow extends NodeRow {
  process: string | null;
  fence: number;
  lease_until: number;
}

/** The body of a response whose content was erased. */
export const ERASED = "";

/** Places of one response in the keys of entries and of events (see schema.ts). */
export const PLACES = 2 ** 24;
/** Where the output side of the entries begins. */
export const OUTPUT = PLACES / 2;

export interface EntryRow {
  side: number;
  position: number;
  turn: number;
  item: string;
  meta: string;
}

type Body = Omit<
  ResponseNode,
  "id" | "owner" | "previousResponseId" | "caller" | "conversationId" | "status" | "createdAt" | "endedAt" | "hash"
>;

/** What most nodes have is not written: half the rows fit twice into a page. These values never change. */
function usual(): Pick<
  Body,
  "incompleteReason" | "error" | "degraded" | "settings" | "depth" | "waited" | "ran" | "restarts"
> {
  return {
    incompleteReason: null,
    error: null,
    degraded: false,
    settings: {},
    depth: 0,
    waited: 0,
    ran: 0,
    restarts: 0,
  };
}

/** Input, output, total, cached, reasoning, and the cost where it is known. */
type Counts = number[];

function countsOf({ input_tokens, output_tokens, total_tokens, cost, ...details }: Usage): Counts {
  const { cached_tokens } = details.input_tokens_details;
  const { reasoning_tokens } = details.output_tokens_details;
  const counts = [input_tokens, output_tokens, total_tokens, cached_tokens, reasoning_tokens];
  return cost === undefined ? counts : [...counts, cost];
}

function usageOf([input = 0, output = 0, total = 0, cached = 0, reasoning = 0, cost]: Counts): Usage {
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: total,
    input_tokens_details: { cached_tokens: cached },
    output_tokens_details: { reasoning_tokens: reasoning },
    ...(cost !== undefined && { cost }),
  };
}

/** What of a node nobody searches by, as JSON text. */
export function bodyOf(node: ResponseNode): string {
  const { profile, model, usage, workspace, door } = node;
  const body: Record<string, unknown> = { profile, model, usage: countsOf(usage), workspace, door };
  for (const [key, value] of Object.entries(usual())) {
    const own = node[key as keyof ResponseNode];
    if (key === "settings" ? Object.keys(node.settings).length > 0 : own !== value) body[key] = own;
  }
  return JSON.stringify(body);
}

/** What stands beside an item, as JSON text. */
export function metaText({ usage, ...meta }: Entry["meta"]): string {
  return JSON.stringify(usage ? { ...meta, usage: countsOf(usage) } : meta);
}

function metaOf(text: string, responseId: string): Entry["meta"] {
  const { usage, ...meta } = parse(text, responseId) as Omit<Entry["meta"], "usage"> & { usage?: Counts };
  return usage ? { ...meta, usage: usageOf(usage) } : meta;
}

export function nodeOf(row: NodeRow): ResponseNode {
  const { usage, ...body } = parse(row.body, row.id) as Omit<Body, "usage"> & { usage: Counts };
  return {
    id: row.id,
    owner: row.owner,
    previousResponseId: row.previous_response_id,
    caller: row.caller_response_id ? { responseId: row.caller_response_id, itemId: row.caller_item_id ?? "" } : null,
    conversationId: row.conversation_id,
    status: row.status as Status,
    createdAt: row.created_at,
    endedAt: row.ended_at,
    hash: row.hash,
    ...usual(),
    ...body,
    usage: usageOf(usage),
  };
}

/** One that is damaged keeps nobody from seeing the others in a list; asked for by its id, it says what it is. */
export function soundNode(row: NodeRow): ResponseNode[] {
  try {
    return [nodeOf(row)];
  } catch {
    return [];
  }
}

export function entryOf(row: EntryRow, responseId: string): Entry {
  return {
    side: row.side === 0 ? "input" : "output",
    position: row.position,
    turn: row.turn,
    item: parse(row.item, responseId) as Item,
    meta: metaOf(row.meta, responseId),
  };
}

function parse(text: string, responseId: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw damaged(responseId, "a row is not JSON");
  }
}

/** SHA-256 (hex) over a node, its entries and its parent's hash. */
export function hashOf(row: NodeRow, entries: readonly EntryRow[], parentHash: string | null): string {
  const content: unknown[] = [
    parentHash,
    row.id,
    row.owner,
    row.previous_response_id,
    row.caller_response_id,
    row.caller_item_id,
    row.conversation_id,
    row.status,
    row.body,
    row.created_at,
    row.ended_at,
  ];
  for (const entry of entries) content.push(entry.side, entry.position, entry.turn, entry.item, entry.meta);
  return hash("sha256", JSON.stringify(content));
}

export function damaged(responseId: string, what: string): RotundaError {
  return new RotundaError("storage_damaged", `response ${responseId} is damaged in the database: ${what}`, {
    remedy: "Everything else can still be read. Branch from its parent, or restore the database from a backup.",
  });
}
