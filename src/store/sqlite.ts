/**
 * Store on SQLite: one file in the state directory, shared by any number of processes on the machine.
 *
 * Invariant: WAL with `synchronous=FULL`: a commit that has returned survives a power cut. Every write of
 * a run checks the run's fence inside the same transaction.
 */
import type { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { AuditEntry, AuditRecord } from "../types/audit.ts";
import type { Copying } from "../types/copy.ts";
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import type { Entry } from "../types/item.ts";
import type { Delivery, Subscription } from "../types/outbox.ts";
import type { Conversation, Owner, ResponseNode } from "../types/response.ts";
import type {
  Batch,
  ConversationFilter,
  IdempotencyRecord,
  IdKind,
  Lease,
  NewResponse,
  ResponseFilter,
  Store,
  StoredResponse,
} from "../types/store.ts";
import { processState } from "../util/process-name.ts";
import { goneOn } from "./conversation-rows.ts";
import { bodyOf, damaged, hashOf, metaText, nodeOf, OUTPUT, PLACES } from "./rows.ts";
import { AuditLog } from "./sqlite-audit.ts";
import { Conversations } from "./sqlite-conversations.ts";
import { SqliteDatabase, type SqliteOptions } from "./sqlite-database.ts";
import { Erasure } from "./sqlite-erase.ts";
import { Idempotency } from "./sqlite-idempotency.ts";
import { openDatabase } from "./sqlite-open.ts";
import { OpenResponses } from "./sqlite-open-responses.ts";
import { Outbox } from "./sqlite-outbox.ts";
import { Records } from "./sqlite-records.ts";
import { Tail } from "./sqlite-tail.ts";
import { SqliteTree } from "./sqlite-tree.ts";
import { UsageLedger } from "./sqlite-usage.ts";

export type { SqliteOptions };

const LEASE = 30_000;
const RENEW = 10_000;
/** Milliseconds between two looks at what other processes write. */
const LOOK = 50;
const PORTION = 15;

export async function openSqliteStore(path: string, options: SqliteOptions = {}): Promise<Store> {
  return new SqliteStore(await openDatabase(path), options);
}

/** The small tables are inherited; this class has the responses: their writes, their leases. */
class SqliteStore extends Records implements Store {
  readonly renewEvery = RENEW;
  readonly #db: SqliteDatabase;
  readonly #lease: number;
  readonly #tail: Tail;
  readonly #open: OpenResponses;
  readonly #tree: SqliteTree;
  readonly #conversations: Conversations;
  readonly #idempotency: Idempotency;
  readonly #audit: AuditLog;
  readonly #erasure: Erasure;
  readonly #outbox: Outbox;
  readonly #usage: UsageLedger;

  constructor(file: DatabaseSync, options: SqliteOptions) {
    const db = new SqliteDatabase(file, options);
    super(db);
    this.#db = db;
    this.#lease = options.lease ?? LEASE;
    this.#tail = new Tail(db, { crowd: options.crowd, age: options.tailAge });
    this.#open = new OpenResponses(db);
    db.listener = {
      began: () => this.#open.began(),
      beforeCommit: () => this.#tail.beforeCommit(),
      committed: () => this.#tail.committed(),
      undone: () => {
        this.#tail.undone();
        this.#open.forgetAll();
      },
    };
    this.#tree = new SqliteTree(db, this.#tail);
    this.#conversations = new Conversations(db, this.#tree);
    this.#idempotency = new Idempotency(db);
    this.#audit = new AuditLog(db);
    this.#outbox = new Outbox(db, this.#tree);
    this.#usage = new UsageLedger(db);
    this.#erasure = new Erasure({
      db,
      tree: this.#tree,
      tail: this.#tail,
      conversations: this.#conversations,
      idempotency: this.#idempotency,
      portion: options.portion ?? PORTION,
    });
  }

  // ---- writes

  async create(response: NewResponse): Promise<IdempotencyRecord | undefined> {
    return this.#db.write(() => {
      const { node, conversation, idempotency } = response;
      const known = idempotency && this.#idempotency.inForce(node.owner, idempotency.key);
      if (known) return known;
      if (node.previousResponseId !== null && !this.#tree.row(node.previousResponseId)) {
        throw new RotundaError("not_found", `there is no response ${node.previousResponseId}`);
      }
      if (conversation) this.#conversations.checkName(conversation);
      const stands = response.linear && conversation ? this.#conversations.get(conversation.id) : undefined;
      if (stands && stands.head !== node.previousResponseId) {
        throw goneOn(stands.id);
      }
      this.#insert(response);
      return undefined;
    });
  }

  #insert({ node, input, events, process, conversation, idempotency }: NewResponse): void {
    const number = this.#db.insert(
      `INSERT INTO responses (id, owner, previous_response_id, caller_response_id, caller_item_id, conversation_id,
         status, body, process, fence, lease_until, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)`,
      node.id,
      node.owner,
      node.previousResponseId,
      node.caller?.responseId ?? null,
      node.caller?.itemId ?? null,
      node.conversationId,
      node.status,
      bodyOf(node),
      process,
      process === null ? 0 : node.createdAt + this.#lease,
      node.createdAt,
    );
    this.#open.made(node.id, number);
    for (const entry of input) this.#putEntry(number, entry);
    this.#tail.put(number, events);
    if (conversation) this.#conversations.point(conversation, node);
    if (idempotency) this.#idempotency.take({ ...idempotency, owner: node.owner, responseId: node.id, answer: null });
  }

  #putEntry(number: number, { side, position, turn, item, meta }: Entry): void {
    this.#db.run(
      `INSERT INTO entries (key, turn, item, meta) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET turn = excluded.turn, item = excluded.item, meta = excluded.meta`,
      number * PLACES + (side === "output" ? OUTPUT : 0) + position,
      turn,
      JSON.stringify(item),
      metaText(meta),
    );
  }

  append(batch: Batch, now: boolean): Promise<void> {
    return this.#db.write(() => this.#apply(batch), now);
  }

  hurry(): void {
    this.#db.hurry();
  }

  #apply(batch: Batch): void {
    batch.sealed = true;
    const number = this.#open.numberOf(batch.responseId, batch.fence);
    if (number === undefined) {
      throw new RotundaError("owned_elsewhere", `response ${batch.responseId} is no longer run by this process`);
    }
    if (isDeltasOnly(batch)) {
      this.#tail.stage(number, batch.fence, batch.events);
      return;
    }
    this.#tail.put(number, batch.events);
    for (const entry of batch.entries) this.#putEntry(number, entry);
    for (const output of batch.outputs) {
      this.#db.run(
        "INSERT INTO outputs (item_id, response_id, text) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET text = excluded.text",
        output.itemId,
        batch.responseId,
        output.text,
      );
    }
    for (const approval of batch.approvals) this.putApproval(approval);
    this.#audit.append(batch.audits);
    for (const spent of batch.spent ?? []) this.spend(batch.responseId, spent);
    if (batch.node) this.#update(batch.responseId, batch.node);
  }

  #update(id: string, change: Partial<ResponseNode>): void {
    const row = this.#tree.row(id);
    if (!row) throw damaged(id, "it is missing");
    const node = { ...nodeOf(row), ...change };
    const waits = node.status === "waiting" && row.status !== "waiting";
    row.status = node.status;
    row.body = bodyOf(node);
    row.ended_at = node.endedAt;
    if (waits || node.endedAt !== null) this.unreserve(id);
    if (node.endedAt === null) {
      this.#db.run("UPDATE responses SET status = ?, body = ? WHERE id = ?", row.status, row.body, row.id);
      if (waits) this.#outbox.waits(node);
      return;
    }
    this.#open.forget(id);
    this.endBudget(id);
    const entries = this.#tree.entryRows(row.number);
    // Ended before its parent (it was cancelled in the queue): there is no hash yet that its own could stand on.
    const isSealed = this.#tree.isSealed(row.previous_response_id);
    row.hash = isSealed ? hashOf(row, entries, this.#tree.parentHash(row)) : null;
    row.process = null;
    this.#db.run(
      "UPDATE responses SET status = ?, body = ?, ended_at = ?, hash = ?, process = NULL WHERE id = ?",
      row.status,
      row.body,
      row.ended_at,
      row.hash,
      row.id,
    );
    if (node.conversationId !== null) this.#touchConversation(row.number, node.conversationId, node);
    this.#usage.ended(node);
    this.#outbox.ended(row, node);
    this.#erasure.ended(row);
  }

  /** A turn that failed with nothing said leaves the conversation where it was before. */
  #touchConversation(number: number, conversationId: string, node: ResponseNode): void {
    if (node.status !== "failed" || node.endedAt === null) return;
    const output = number * PLACES + OUTPUT;
    const said = this.#db.one("SELECT 1 FROM entries WHERE key BETWEEN ? AND ? LIMIT 1", output, output + OUTPUT - 1);
    if (!said) this.#conversations.moveBack(conversationId, node.id, node.previousResponseId, node.endedAt);
  }

  delete(id: string): Promise<boolean> {
    return this.#erasure.delete(id);
  }

  // ---- reads

  async node(id: string): Promise<ResponseNode | undefined> {
    return this.#tree.node(id);
  }

  async get(id: string): Promise<StoredResponse | undefined> {
    return this.#tree.get(id);
  }

  async path(id: string, known: (id: string) => boolean = () => false): Promise<StoredResponse[]> {
    return this.#tree.path(id, known);
  }

  async children(id: string): Promise<ResponseNode[]> {
    return this.#tree.children(id);
  }

  async list(filter: ResponseFilter): Promise<ResponseNode[]> {
    return this.#tree.list(filter);
  }

  async events(responseId: string, after: number, limit: number): Promise<RunEvent[]> {
    return this.#tree.events(responseId, after, limit);
  }

  async output(itemId: string): Promise<string | undefined> {
    return this.#tree.output(itemId);
  }

  async resolve(part: string, kinds: readonly IdKind[]): Promise<string[]> {
    return this.#tree.resolve(part, kinds);
  }

  // ---- leases

  async claim(responseId: string, process: string): Promise<Lease | undefined> {
    return this.#db.write(() => {
      const row = this.#tree.row(responseId);
      if (!row || row.ended_at !== null) return undefined;
      if (row.process !== null && row.process !== process) {
        const state = processState(row.process);
        if (state === "alive" || (state === "elsewhere" && row.lease_until > Date.now())) return undefined;
      }
      this.#tail.settle(row.number);
      this.#open.forget(responseId);
      const fence = row.fence + 1;
      this.#db.run(
        "UPDATE responses SET process = ?, fence = ?, lease_until = ? WHERE id = ?",
        process,
        fence,
        Date.now() + this.#lease,
        responseId,
      );
      return { process, fence, ...(row.process !== null && { crashed: true as const }) };
    });
  }

  async release(responseId: string, lease: Lease): Promise<void> {
    await this.#db.write(() => {
      const number = this.#open.numberOf(responseId, lease.fence);
      if (number !== undefined) this.#tail.put(number, []);
      this.#db.run("UPDATE responses SET process = NULL WHERE id = ? AND fence = ?", responseId, lease.fence);
    });
  }

  async renew(process: string): Promise<void> {
    const sql = "UPDATE responses SET lease_until = ? WHERE ended_at IS NULL AND process = ?";
    await this.#db.write(() => this.#db.run(sql, Date.now() + this.#lease, process));
  }

  async leaseOf(responseId: string): Promise<Lease | undefined> {
    const row = this.#tree.row(responseId);
    if (!row?.process) return undefined;
    const over = row.lease_until <= Date.now() && processState(row.process) === "elsewhere";
    return { process: row.process, fence: row.fence, ...(over && { over }) };
  }

  async abandoned(limit: number): Promise<ResponseNode[]> {
    return this.#open.abandoned(limit).map(nodeOf);
  }

  // ---- what other files hold

  async conversation(idOrName: string, owner?: Owner): Promise<Conversation | undefined> {
    return this.#conversations.get(idOrName, owner);
  }

  async conversations(filter: ConversationFilter): Promise<Conversation[]> {
    return this.#conversations.list(filter);
  }

  saveConversation(conversation: Conversation): Promise<void> {
    return this.#conversations.save(conversation);
  }

  removeConversation(id: string): Promise<boolean> {
    return this.#conversations.remove(id);
  }

  async idempotency(owner: Owner, key: string): Promise<IdempotencyRecord | undefined> {
    return this.#idempotency.inForce(owner, key);
  }

  saveIdempotency(record: IdempotencyRecord): Promise<boolean> {
    return this.#idempotency.save(record);
  }

  subscribe(subscriptions: readonly Subscription[], until: number): Promise<void> {
    return this.#outbox.subscribe(subscriptions, until);
  }

  takeDeliveries(target: string, limit: number, process: string): Promise<Delivery[]> {
    return this.#outbox.take(target, limit, process);
  }

  settleDelivery(delivery: Pick<Delivery, "sequence" | "attempts">, again: number | null): Promise<void> {
    return this.#outbox.settle(delivery, again);
  }

  async usedOn(owner: Owner, at: number): Promise<{ tokens: number; cost: number }> {
    return this.#usage.onDay(owner, at);
  }

  audit(entry: AuditEntry): Promise<void> {
    return this.#audit.add(entry);
  }

  async audits(after: number, limit: number): Promise<AuditRecord[]> {
    return this.#audit.list(after, limit);
  }

  async auditEnd(): Promise<{ sequence: number; hash: string } | undefined> {
    return this.#audit.end();
  }

  version(): number {
    return this.#db.version();
  }

  async changed(_responseId: string, within: number): Promise<void> {
    await sleep(Math.min(within, LOOK));
  }

  async copying(): Promise<Copying> {
    return new (await import("./sqlite-copy.ts")).SqliteCopying(this.#db, () => this.#erasure.finish());
  }

  async close(): Promise<void> {
    try {
      this.#tail.close();
      this.#erasure.close();
    } finally {
      this.#db.close();
    }
  }
}

function isDeltasOnly({ events, entries, outputs, approvals, audits, spent, node }: Batch): boolean {
  if (spent || events.length === 0 || entries.length + outputs.length + approvals.length + audits.length > 0)
    return false;
  return node === null && events.every((event) => "delta" in event);
}
