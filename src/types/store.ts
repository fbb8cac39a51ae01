/**
 * Store: the tree and the log on disk. SQLite and Postgres pass one test suite.
 *
 * Invariant: a promise of a write resolves after the fsync that made it durable, and never before; writes
 * of one response become durable in the order in which they were handed in; a write with a fence that is
 * no longer in force changes nothing and rejects with `owned_elsewhere`.
 */
import type { Approval, LearnedRule } from "./approval.ts";
import type { RunEvent } from "./event.ts";
import type { Entry, Item } from "./item.ts";
import type { Conversation, ResponseNode, Status } from "./response.ts";

/** Who runs a response: `host/pid/start time/random`, so that a dead owner on this host is known at once. */
export interface Lease {
  owner: string;
  /** Grows by one with every change of owner. */
  fence: number;
}

export interface NewResponse {
  node: ResponseNode;
  input: Entry[];
  events: RunEvent[];
  owner: string;
  /** The pointer that moves to this response, made if it does not exist. */
  conversation: Conversation | null;
}

/**
 * Facts of one response that belong together. It may be added to until `sealed` turns true: that is how
 * deltas ride together.
 */
export interface Batch {
  readonly responseId: string;
  readonly fence: number;
  sealed: boolean;
  /** Consecutive. */
  events: RunEvent[];
  /** New or replaced, by side and position. */
  entries: Entry[];
  outputs: { itemId: string; text: string }[];
  approvals: Approval[];
  /** Changed columns of the node. With `hash` set, the response has ended and its lease is over. */
  node: Partial<ResponseNode> | null;
}

export interface StoredResponse {
  node: ResponseNode;
  entries: Entry[];
}

export interface ResponseFilter {
  status?: readonly Status[];
  conversationId?: string;
  callerResponseId?: string;
  /** At most this many, newest first. Default 100. */
  limit?: number;
  /** Only roots of the tree (no parent, no caller). */
  roots?: boolean;
}

/** A wish that reaches a run wherever it lives. */
export interface Control {
  sequence: number;
  responseId: string;
  kind: "cancel" | "steer";
  reason: string | null;
  items: Item[] | null;
}

export interface Store {
  create(response: NewResponse): Promise<void>;
  /** Hands a batch in: at once with `now`, else when the commit clock next ticks. */
  append(batch: Batch, now: boolean): Promise<void>;
  /** Whatever was handed in is committed in this tick. */
  hurry(): void;

  get(id: string): Promise<StoredResponse | undefined>;
  node(id: string): Promise<ResponseNode | undefined>;
  /** The node and all its ancestors that are not in `known`, root first. */
  path(id: string, known?: (id: string) => boolean): Promise<StoredResponse[]>;
  children(id: string): Promise<ResponseNode[]>;
  list(filter: ResponseFilter): Promise<ResponseNode[]>;
  events(responseId: string, after: number, limit: number): Promise<RunEvent[]>;
  /** The whole of an output that was cut, by the id of its call. */
  output(itemId: string): Promise<string | undefined>;
  /** Full ids of responses, conversations or calls that begin or end with `part`; at most ten. */
  resolve(part: string, kinds: readonly IdKind[]): Promise<string[]>;

  /** Takes a response that has not ended and whose owner is gone. Undefined: somebody alive has it, or it has ended. */
  claim(responseId: string, owner: string): Promise<Lease | undefined>;
  /** Gives it up without ending it. */
  release(responseId: string, lease: Lease): Promise<void>;
  /** Prolongs all leases of the owner. */
  renew(owner: string): Promise<void>;
  leaseOf(responseId: string): Promise<Lease | undefined>;

  conversation(idOrName: string): Promise<Conversation | undefined>;
  conversations(limit: number, workspace?: string): Promise<Conversation[]>;
  saveConversation(conversation: Conversation): Promise<void>;

  approval(id: string): Promise<Approval | undefined>;
  approvals(filter: { status?: "pending"; responseId?: string }): Promise<Approval[]>;
  /** Settles a pending approval; false if it was settled before. The first answer wins. */
  settleApproval(approval: Approval): Promise<boolean>;
  /** The rules of these holders; all of them without. */
  rules(holders?: readonly string[]): Promise<LearnedRule[]>;
  addRule(rule: LearnedRule): Promise<void>;
  removeRule(id: string): Promise<boolean>;

  sendControl(control: Omit<Control, "sequence">): Promise<void>;
  /** Removes and returns what waits for these responses. */
  takeControls(responseIds: readonly string[]): Promise<Control[]>;

  /** A number that changes when another process has written. Cheap enough for ten calls a second. */
  version(): number;
  close(): Promise<void>;
}

export type IdKind = "response" | "conversation" | "item" | "approval";
