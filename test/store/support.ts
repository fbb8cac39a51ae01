/** What the store's tests need: responses made by hand, without an engine. */
import { DatabaseSync } from "node:sqlite";
import type { Approval } from "../../src/types/approval.ts";
import type { AuditEntry } from "../../src/types/audit.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Entry, MessageItem } from "../../src/types/item.ts";
import { type Conversation, LOCAL, type ResponseNode } from "../../src/types/response.ts";
import type { Batch, IdempotencyRecord, NewResponse, Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { newProcessName } from "../../src/util/process-name.ts";

export const PROCESS = "host/1/1/test";

export function nodeOf(rest: Partial<ResponseNode> = {}): ResponseNode {
  return {
    id: newId("resp"),
    owner: LOCAL,
    previousResponseId: null,
    caller: null,
    conversationId: null,
    profile: "general",
    model: "scripted",
    status: "in_progress",
    incompleteReason: null,
    error: null,
    degraded: false,
    usage: {
      input_tokens: 0,
      output_tokens: 0,
      total_tokens: 0,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
    settings: {},
    workspace: "/work",
    door: "test",
    depth: 0,
    createdAt: Date.now(),
    endedAt: null,
    waited: 0,
    ran: 0,
    restarts: 0,
    hash: null,
    ...rest,
  };
}

/** A response that a process runs: this one, unless another is named. */
export async function runningIn(store: Store, process = newProcessName()): Promise<{ id: string; process: string }> {
  const node = nodeOf();
  await store.create({ node, input: [messageEntry("input", "hello")], events: [], process, conversation: null });
  return { id: node.id, process };
}

export function messageEntry(side: Entry["side"], text: string, position = 0): Entry {
  const item: MessageItem = {
    type: "message",
    id: newId("msg"),
    role: side === "input" ? "user" : "assistant",
    status: "completed",
    content: [
      side === "input" ? { type: "input_text", text } : { type: "output_text", text, annotations: [] as never[] },
    ],
  };
  return { side, position, turn: side === "input" ? 0 : 1, item, meta: {} };
}

export function batchOf(responseId: string, rest: Partial<Batch> = {}): Batch {
  return {
    responseId,
    fence: 1,
    sealed: false,
    events: [],
    entries: [],
    outputs: [],
    approvals: [],
    audits: [],
    node: null,
    ...rest,
  };
}

export function conversationOf(rest: Partial<Conversation> = {}): Conversation {
  const now = Date.now();
  const id = rest.id ?? newId("conv");
  const times = { createdAt: now, updatedAt: now };
  return { id, owner: LOCAL, name: null, title: "", head: null, workspace: "/work", metadata: {}, ...times, ...rest };
}

export function auditOf(what: string): AuditEntry {
  return {
    action: "tool_call",
    who: "local",
    door: "test",
    responseId: null,
    at: 1_700_000_000_000,
    details: { what },
  };
}

export function approvalOf(responseId: string, rest: Partial<Approval> = {}): Approval {
  return {
    id: newId("mcpr"),
    responseId,
    itemId: newId("mcp"),
    tool: "bash",
    arguments: "{}",
    digest: "d",
    why: "mode ask",
    pattern: "bash(ls)",
    status: "pending",
    reason: null,
    decidedBy: null,
    createdAt: 1,
    expiresAt: 2,
    decidedAt: null,
    ...rest,
  };
}

export interface Wish extends Partial<ResponseNode> {
  input?: string;
  conversation?: Conversation | null;
  idempotency?: NewResponse["idempotency"];
}

/** A response that runs. Resolves with its node, and with the record that the store gave. */
export async function begin(
  store: Store,
  { input = "go", conversation = null, idempotency, ...rest }: Wish = {},
): Promise<{ node: ResponseNode; known: IdempotencyRecord | undefined }> {
  const node = nodeOf({ ...(conversation && { conversationId: conversation.id }), ...rest });
  const events: RunEvent[] = [{ type: "response.created", sequence_number: 0 }];
  const known = await store.create({
    node,
    input: [messageEntry("input", input)],
    events,
    process: PROCESS,
    conversation: conversation && { ...conversation, head: node.id },
    ...(idempotency && { idempotency }),
  });
  return { node, known };
}

/** Ends a response that runs, with one message. */
export async function end(store: Store, id: string, text = "done", rest: Partial<Batch> = {}): Promise<void> {
  const entry = messageEntry("output", text);
  const events: RunEvent[] = [
    { type: "response.output_item.added", sequence_number: 1, output_index: 0, item: entry.item },
    {
      type: "response.output_text.delta",
      sequence_number: 2,
      output_index: 0,
      content_index: 0,
      item_id: entry.item.id,
      delta: text,
    },
    { type: "response.completed", sequence_number: 3, status: "completed" },
  ];
  const node: Partial<ResponseNode> = { status: "completed", endedAt: Date.now(), hash: "due" };
  await store.append(batchOf(id, { entries: [entry], events, node, ...rest }), true);
}

/** A response that has ended. Resolves with its id. */
export async function ended(store: Store, wish: Wish = {}, output = "done"): Promise<string> {
  const { node } = await begin(store, wish);
  await end(store, node.id, output);
  return node.id;
}

/** How SQLite would run a statement, one line for each step. */
export function planOf(file: string, sql: string, parameters: (string | number | null)[]): string {
  const raw = new DatabaseSync(file);
  try {
    const rows = raw.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...parameters);
    return rows.map((row) => String(row.detail)).join("\n");
  } finally {
    raw.close();
  }
}

/** Changes the file behind the store's back: one statement with parameters, or several without. */
export function tamper(file: string, sql: string, ...parameters: (string | number)[]): void {
  const raw = new DatabaseSync(file, { timeout: 1_000 });
  if (parameters.length > 0) raw.prepare(sql).run(...parameters);
  else raw.exec(sql);
  raw.close();
}
