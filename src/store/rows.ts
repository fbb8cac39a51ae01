/**
 * Rows: how a node and its entries are written as rows, and the hash that seals an ended node.
 *
 * Invariant: the hash is taken over the very texts that are stored, so that it can be checked without
 * knowing what they mean, on any database, by any later version.
 */
import { hash } from "node:crypto";
import { RotundaError } from "../types/error.ts";
import type { Entry, Item } from "../types/item.ts";
import type { ResponseNode, Status } from "../types/response.ts";

export interface ResponseRow {
  number: number;
  id: string;
  previous_response_id: string | null;
  caller_response_id: string | null;
  caller_item_id: string | null;
  conversation_id: string | null;
  status: string;
  body: string;
  owner: string | null;
  fence: number;
  lease_until: number;
  created_at: number;
  ended_at: number | null;
  hash: string | null;
}

export interface EntryRow {
  side: number;
  position: number;
  turn: number;
  item: string;
  meta: string;
}

type Body = Omit<
  ResponseNode,
  "id" | "previousResponseId" | "caller" | "conversationId" | "status" | "createdAt" | "endedAt" | "hash"
>;

/** What of a node nobody searches by, as JSON text. */
export function bodyOf(node: ResponseNode): string {
  const body: Body = {
    profile: node.profile,
    model: node.model,
    incompleteReason: node.incompleteReason,
    error: node.error,
    degraded: node.degraded,
    usage: node.usage,
    settings: node.settings,
    workspace: node.workspace,
    door: node.door,
    depth: node.depth,
    waited: node.waited,
    ran: node.ran,
  };
  return JSON.stringify(body);
}

export function nodeOf(row: ResponseRow): ResponseNode {
  return {
    id: row.id,
    previousResponseId: row.previous_response_id,
    caller: row.caller_response_id ? { responseId: row.caller_response_id, itemId: row.caller_item_id ?? "" } : null,
    conversationId: row.conversation_id,
    status: row.status as Status,
    createdAt: row.created_at,
    endedAt: row.ended_at,
    hash: row.hash,
    ...(parse(row.body, row.id) as Body),
  };
}

export function entryOf(row: EntryRow, responseId: string): Entry {
  return {
    side: row.side === 0 ? "input" : "output",
    position: row.position,
    turn: row.turn,
    item: parse(row.item, responseId) as Item,
    meta: parse(row.meta, responseId) as Entry["meta"],
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
export function hashOf(row: ResponseRow, entries: readonly EntryRow[], parentHash: string | null): string {
  const content: unknown[] = [
    parentHash,
    row.id,
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
