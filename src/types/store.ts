/**
 * Store: the tree and the log on disk. SQLite and Postgres pass one test suite.
 *
 * Invariant: a promise of a write resolves after the fsync that made it durable, and never before; writes
 * of one response become durable in the order in which they were handed in; a write with a fence that is
 * no longer in force changes nothing and rejects with `owned_elsewhere`.
 */
import type { Approval, LearnedRule } from "./approval.ts";
import type { AuditEntry, AuditRecord } from "./audit.ts";
import type { Browsing } from "./browsing.ts";
import type { Budget, BudgetKey, BudgetLimits, BudgetPeriod, Reservation, Reserved, Spending } from "./budget.ts";
import type { Copying } from "./copy.ts";
import type { RunEvent } from "./event.ts";
import type { Entry, Item } from "./item.ts";
import type { Delivery, Subscription } from "./outbox.ts";
import type { Conversation, Owner, ResponseNode, Status } from "./response.ts";
import type { Schedule } from "./schedule.ts";
import type { Token } from "./token.ts";

/** Who runs a response: `host/pid/start time/random`, so that a dead process on this host is known at once. */
export interface Lease {
  process: string;
  /** Grows by one with every change of process. */
  fence: number;
  /** Of a claim: a process had it before, and did not give it up. */
  crashed?: true;
  /** Its time has passed by the store's clock: whoever claims the response gets it. */
  over?: true;
}

export interface NewResponse {
  node: ResponseNode;
  input: Entry[];
  events: RunEvent[];
  /** Null: nobody has it yet, and whoever claims it runs it. */
  process: string | null;
  /** The pointer that moves to this response, made if it does not exist. */
  conversation: Conversation | null;
  /** It goes on where its conversation stands: `owned_elsewhere` where another turn has come in between. */
  linear?: boolean;
  /** Taken in the same transaction. `expiresAt` in milliseconds since the epoch. */
  idempotency?: { key: string; digest: string; expiresAt: number };
}

/** What a request with an idempotency key has led to. Keys are the owner's own. */
export interface IdempotencyRecord {
  owner: Owner;
  key: string;
  /** SHA-256 over method, path and body. */
  digest: string;
  /** The response that it started, or null where the answer itself is kept. */
  responseId: string | null;
  answer: { status: number; body: string } | null;
  expiresAt: number;
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
  audits: AuditEntry[];
  /** What calls have used. It settles what was reserved for them. */
  spent?: Spending[];
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
  owner?: Owner;
  previousResponseId?: string;
  /** Only those older than this one. */
  before?: string;
  /** Only those that ended before this moment, in milliseconds since the epoch. */
  endedBefore?: number;
}

export interface ConversationFilter {
  /** At most this many, the last used first. */
  limit: number;
  workspace?: string;
  owner?: Owner;
  /** Only those last used before this one. */
  before?: string;
  /** Only those whose metadata may say how long they are kept (`keep`). */
  kept?: true;
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
  /** Milliseconds between two calls of `renew` that keep a process's leases alive. */
  readonly renewEvery: number;
  /** Resolves with the record that already holds the idempotency key, and makes nothing; else with undefined. */
  create(response: NewResponse): Promise<IdempotencyRecord | undefined>;
  /** Hands a batch in: at once with `now`, else when the commit clock next ticks. */
  append(batch: Batch, now: boolean): Promise<void>;
  /** Whatever was handed in is committed in this tick. */
  hurry(): void;

  /**
   * Marks an ended response as deleted: from then on only `path` gives it. The contents (items, log, outputs, body)
   * of it and of any deleted ancestors that no living descendant needs are erased; ids and hashes remain. False: there is none.
   */
  delete(id: string): Promise<boolean>;

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

  /** Takes a response that has not ended and whose process is gone. Undefined: somebody alive has it, or it has ended. */
  claim(responseId: string, process: string): Promise<Lease | undefined>;
  /** Gives it up without ending it. */
  release(responseId: string, lease: Lease): Promise<void>;
  /** Prolongs all leases of the process. */
  renew(process: string): Promise<void>;
  leaseOf(responseId: string): Promise<Lease | undefined>;

  /** By id, or by name within the owner ("local" if none is given). */
  conversation(idOrName: string, owner?: Owner): Promise<Conversation | undefined>;
  conversations(filter: ConversationFilter): Promise<Conversation[]>;
  saveConversation(conversation: Conversation): Promise<void>;
  /** Removes the pointer; its responses stay. False: there is none. */
  removeConversation(id: string): Promise<boolean>;

  approval(id: string): Promise<Approval | undefined>;
  approvals(filter: { status?: "pending"; responseId?: string; owner?: Owner }): Promise<Approval[]>;
  /** Settles a pending approval; false if it was settled before. The first answer wins. */
  settleApproval(approval: Approval): Promise<boolean>;
  /** The rules of these holders; all of them without. */
  rules(holders?: readonly string[]): Promise<LearnedRule[]>;
  addRule(rule: LearnedRule): Promise<void>;
  removeRule(id: string): Promise<boolean>;

  sendControl(control: Omit<Control, "sequence">): Promise<void>;
  /** Removes and returns what waits for these responses. */
  takeControls(responseIds: readonly string[]): Promise<Control[]>;

  /** The record in force for a key; one that has expired is none. */
  idempotency(owner: Owner, key: string): Promise<IdempotencyRecord | undefined>;
  /** Keeps the answer of a request that starts no response. False: the key is taken. */
  saveIdempotency(record: IdempotencyRecord): Promise<boolean>;

  token(id: string): Promise<Token | undefined>;
  tokens(): Promise<Token[]>;
  /** New, or in a new form. */
  saveToken(token: Token): Promise<void>;

  /**
   * These targets are told, until a moment (milliseconds since the epoch), what becomes of outermost responses that any
   * process runs. What a process that is gone was delivering is due again; what is three days old is given up.
   */
  subscribe(subscriptions: readonly Subscription[], until: number): Promise<void>;
  /** Events for a target that are due: for 90 seconds this process's to deliver, and nobody else's. */
  takeDeliveries(target: string, limit: number, process: string): Promise<Delivery[]>;
  /** `again`: when it is due once more, with the given number of attempts behind it; null: it is over. */
  settleDelivery(delivery: Pick<Delivery, "sequence" | "attempts">, again: number | null): Promise<void>;
  /** What responses of a token that ended on the day (UTC) of `at` have used, and those that run so far. Cost in US dollars. */
  usedOn(owner: Owner, at: number): Promise<{ tokens: number; cost: number }>;

  /** Those that are due at a moment (milliseconds since the epoch); without one, all by name. */
  schedules(dueAt?: number): Promise<Schedule[]>;
  /** New, or in a new form. False: `seenAt` was given, and is not its `nextAt` any more. */
  saveSchedule(schedule: Schedule, seenAt?: number | null): Promise<boolean>;
  removeSchedule(id: string): Promise<boolean>;
  /**
   * Outermost responses that have not ended and whose process is gone: it crashed, or it left them (`queued` without a
   * process, `in_progress`). Those that wait for a person or a budget are none. Oldest first.
   */
  abandoned(limit: number): Promise<ResponseNode[]>;
  /** As they stand at `now` (milliseconds since the epoch), those of single responses and trees last. Default limit 1,000. */
  budgets(now: number, filter?: { key?: BudgetKey; limit?: number }): Promise<Budget[]>;
  /** Sets the limits of one, made where there is none; what was used of it stays. */
  saveBudget(key: BudgetKey, limits: BudgetLimits, period: BudgetPeriod, now: number): Promise<void>;
  /** False: there is none. One that the configuration names begins anew with it. */
  removeBudget(key: BudgetKey): Promise<boolean>;
  /**
   * Reserves what a call will use, in all the budgets that it falls under or in none. Replaces the response's last one.
   * It counts until it is settled, the response waits or has ended, or the process that runs it is gone.
   */
  reserve(reservation: Reservation, now: number): Promise<Reserved>;
  /** Tokens and cost of a response, of all its descendants and of the sub-agents of these. */
  usedBelow(id: string): Promise<{ responses: number; tokens: number; cost: number }>;

  /** Appends to the audit log; the chain of hashes is made in the same transaction. */
  audit(entry: AuditEntry): Promise<void>;
  /** After a sequence number (default 0: from the first, 1), oldest first. */
  audits(after: number, limit: number): Promise<AuditRecord[]>;
  /** Number and hash that the last record must have (0 and 64 zeros where there is none). Undefined: that note was removed. */
  auditEnd(): Promise<{ sequence: number; hash: string } | undefined>;

  /** A number that changes when another process has sent a control or settled an approval. Cheap: asked 20 times a second. */
  version(): number;
  /**
   * Resolves when another process may have written something of a response since it was last read here, at the latest
   * after `within` milliseconds and when the store closes. Never rejects.
   */
  changed(responseId: string, within: number): Promise<void>;
  /** For whoever looks around. */
  browsing(): Promise<Browsing>;
  /** What it takes to copy from here to another database, and into here. */
  copying(): Promise<Copying>;
  close(): Promise<void>;
}

export type IdKind = "response" | "conversation" | "item" | "approval";
