/**
 * Store on Postgres: one database for any number of processes on any number of machines.
 *
 * Invariant: as of every store (types/store.ts). A commit is on the server's disk before it is told; every write of a
 * run holds the row with the run's fence until its commit.
 *
 * Connections of a process: 2 that write, up to 4 that read, 1 for news. Those that write and read are given back after
 * a minute of rest.
 */
import type { Approval, LearnedRule } from "../types/approval.ts";
import type { AuditEntry, AuditRecord } from "../types/audit.ts";
import type { Browsing } from "../types/browsing.ts";
import type { Budget, BudgetKey, BudgetLimits, BudgetPeriod, Reservation, Reserved } from "../types/budget.ts";
import type { Copying } from "../types/copy.ts";
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import type { Delivery, Subscription } from "../types/outbox.ts";
import type { Conversation, Owner, ResponseNode } from "../types/response.ts";
import type { Schedule } from "../types/schedule.ts";
import type {
  Batch,
  Control,
  ConversationFilter,
  IdempotencyRecord,
  IdKind,
  Lease,
  NewResponse,
  ResponseFilter,
  Store,
  StoredResponse,
} from "../types/store.ts";
import type { Token } from "../types/token.ts";
import { Appending } from "./postgres-append.ts";
import { appendAudits, auditEnd, listAudits } from "./postgres-audit.ts";
import { listBudgets, reserve, saveBudget, usedBelow } from "./postgres-budgets.ts";
import { Commits } from "./postgres-commits.ts";
import { findConversation, listConversations, saveConversation } from "./postgres-conversations.ts";
import { Creation, type Enqueue } from "./postgres-create.ts";
import { PostgresDatabase, type Probe } from "./postgres-database.ts";
import { ERASURE, PostgresErasure } from "./postgres-erase.ts";
import { EventLog } from "./postgres-events.ts";
import { keyInForce, keyOf, PostgresIdempotency } from "./postgres-idempotency.ts";
import { abandoned, Leases, release } from "./postgres-leases.ts";
import { News } from "./postgres-news.ts";
import { prepareDatabase } from "./postgres-open.ts";
import * as outbox from "./postgres-outbox.ts";
import * as records from "./postgres-records.ts";
import { listSchedules, saveSchedule } from "./postgres-schedules.ts";
import { PostgresTree } from "./postgres-tree.ts";

export interface PostgresOptions {
  /** A name of letters, digits and underscores. Default "rotunda". */
  schema?: string;
  /** Milliseconds of a lease. Default 8,000. */
  lease?: number;
  /** Connections that read at once. Default 4. */
  readers?: number;
  /** Transactions at once. Default 2. */
  writers?: number;
  /** Called before and after each commit; tests kill the process there. */
  probe?: Probe | undefined;
  /** Milliseconds that one transaction erases, about. Default 100. */
  portion?: number;
  /** Called within the transaction that makes a response which nobody has yet (`process: null`). */
  enqueue?: Enqueue;
}

const LEASE = 8_000;
const READERS = 4;
const WRITERS = 2;

/** `url`: `postgres://user:password@host:port/database`. Throws `storage_failed`, `config_invalid`. */
export async function openPostgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const { schema = "rotunda" } = options;
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) {
    throw new RotundaError("config_invalid", `${JSON.stringify(schema)} cannot be the name of a schema`, {
      remedy: "Use small letters, digits and underscores.",
    });
  }
  const driver = await import("pg");
  const { readers = READERS, writers = WRITERS, probe } = options;
  const db = new PostgresDatabase(driver, url, { schema, readers, writers, probe });
  await prepareDatabase(db, url);
  const store = new PostgresStore(db, options);
  await store.begin();
  return store;
}

class PostgresStore implements Store {
  readonly renewEvery: number;
  readonly #db: PostgresDatabase;
  readonly #news: News;
  readonly #commits: Commits;
  readonly #leases: Leases;
  readonly #tree: PostgresTree;
  readonly #log: EventLog;
  readonly #idempotency = new PostgresIdempotency();
  readonly #erasure: PostgresErasure;
  #closing: Promise<void> | undefined;

  constructor(db: PostgresDatabase, options: PostgresOptions) {
    this.#db = db;
    this.#news = new News(db);
    this.#leases = new Leases(db, options.lease ?? LEASE);
    this.renewEvery = this.#leases.renewEvery;
    this.#tree = new PostgresTree(db);
    this.#log = new EventLog(db);
    this.#erasure = new PostgresErasure((work) => this.#commits.records(work, { locks: [ERASURE] }), options.portion);
    this.#commits = new Commits({
      db,
      writers: options.writers ?? WRITERS,
      creation: new Creation(this.#idempotency, this.#leases, options.enqueue),
      appending: new Appending(this.#erasure),
      tell: (ids, mark) => this.#news.tell(ids, mark),
      undone: () => this.#leases.undone(),
    });
  }

  async begin(): Promise<void> {
    if (await this.#db.one("SELECT 1 AS left FROM {erasing} LIMIT 1")) this.#erasure.finishLater();
  }

  // ---- writes

  async create(response: NewResponse): Promise<IdempotencyRecord | undefined> {
    return (await this.#commits.create(response)) as IdempotencyRecord | undefined;
  }

  append(batch: Batch, now: boolean): Promise<void> {
    return this.#commits.append(batch, now);
  }

  hurry(): void {
    this.#commits.hurry();
  }

  delete(id: string): Promise<boolean> {
    return this.#erasure.delete(id);
  }

  // ---- reads

  node(id: string): Promise<ResponseNode | undefined> {
    this.#news.reading(id);
    return this.#tree.node(id);
  }

  get(id: string): Promise<StoredResponse | undefined> {
    return this.#tree.get(id);
  }

  path(id: string, known: (id: string) => boolean = () => false): Promise<StoredResponse[]> {
    return this.#tree.path(id, known);
  }

  children(id: string): Promise<ResponseNode[]> {
    return this.#tree.children(id);
  }

  list(filter: ResponseFilter): Promise<ResponseNode[]> {
    return this.#tree.list(filter);
  }

  events(responseId: string, after: number, limit: number): Promise<RunEvent[]> {
    this.#news.reading(responseId);
    return this.#log.read(responseId, after, limit);
  }

  output(itemId: string): Promise<string | undefined> {
    return this.#tree.output(itemId);
  }

  resolve(part: string, kinds: readonly IdKind[]): Promise<string[]> {
    return this.#tree.resolve(part, kinds);
  }

  // ---- leases

  claim(responseId: string, process: string): Promise<Lease | undefined> {
    const key = responseId;
    return this.#commits.records((transaction) => this.#leases.claim(transaction, responseId, process), { key });
  }

  release(responseId: string, lease: Lease): Promise<void> {
    const key = responseId;
    return this.#commits.records((transaction) => release(transaction, responseId, lease), { key });
  }

  renew(process: string): Promise<void> {
    return this.#leases.renew(process);
  }

  abandoned(limit: number): Promise<ResponseNode[]> {
    return abandoned(this.#db, limit);
  }

  leaseOf(responseId: string): Promise<Lease | undefined> {
    return this.#leases.of(responseId);
  }

  // ---- conversations

  conversation(idOrName: string, owner?: Owner): Promise<Conversation | undefined> {
    return findConversation(this.#db, idOrName, owner);
  }

  conversations(filter: ConversationFilter): Promise<Conversation[]> {
    return listConversations(this.#db, filter);
  }

  saveConversation(conversation: Conversation): Promise<void> {
    return this.#commits.records((transaction) => saveConversation(transaction, conversation));
  }

  removeConversation(id: string): Promise<boolean> {
    return this.#remove("DELETE FROM {conversations} WHERE id = $1", id);
  }

  /** Whether there was something to remove. */
  #remove(sql: string, id: string): Promise<boolean> {
    return this.#commits.records(async (transaction) => (await transaction.run(sql, id)) > 0);
  }

  // ---- approvals, rules, controls

  approval(id: string): Promise<Approval | undefined> {
    return records.findApproval(this.#db, id);
  }

  approvals(filter: Parameters<Store["approvals"]>[0]): Promise<Approval[]> {
    return records.listApprovals(this.#db, filter);
  }

  settleApproval(approval: Approval): Promise<boolean> {
    return this.#commits.records((transaction) => records.settleApproval(transaction, approval), { mark: true });
  }

  rules(holders?: readonly string[]): Promise<LearnedRule[]> {
    return records.listRules(this.#db, holders);
  }

  addRule(rule: LearnedRule): Promise<void> {
    return this.#commits.records((transaction) => records.addRule(transaction, rule));
  }

  removeRule(id: string): Promise<boolean> {
    return this.#remove("DELETE FROM {rules} WHERE id = $1", id);
  }

  sendControl(control: Omit<Control, "sequence">): Promise<void> {
    return this.#commits.records((transaction) => records.sendControl(transaction, control), { mark: true });
  }

  async takeControls(responseIds: readonly string[]): Promise<Control[]> {
    if (!(await records.hasControls(this.#db, responseIds))) return [];
    return this.#commits.records((transaction) => records.takeControls(transaction, responseIds));
  }

  // ---- keys, tokens, outbox, budgets, audit

  idempotency(owner: Owner, key: string): Promise<IdempotencyRecord | undefined> {
    return keyInForce(this.#db, owner, key);
  }

  saveIdempotency(record: IdempotencyRecord): Promise<boolean> {
    return this.#commits.records(async (transaction) => {
      const known = await this.#idempotency.take(transaction, [record]);
      return !known.has(keyOf(record));
    });
  }

  token(id: string): Promise<Token | undefined> {
    return records.findToken(this.#db, id);
  }

  tokens(): Promise<Token[]> {
    return records.listTokens(this.#db);
  }

  saveToken(token: Token): Promise<void> {
    return this.#commits.records((transaction) => records.saveToken(transaction, token), { locks: ["tokens"] });
  }

  subscribe(subscriptions: readonly Subscription[], until: number): Promise<void> {
    const locks = ["subscriptions"];
    return this.#commits.records((transaction) => outbox.subscribe(transaction, subscriptions, until), { locks });
  }

  async takeDeliveries(target: string, limit: number, process: string): Promise<Delivery[]> {
    // Asked several times a second: nothing is written where there is nothing to do.
    if (limit <= 0 || !(await outbox.isAnythingDue(this.#db, target))) return [];
    return this.#commits.records((transaction) => outbox.take(transaction, target, limit, process));
  }

  settleDelivery(delivery: Pick<Delivery, "sequence" | "attempts">, again: number | null): Promise<void> {
    return this.#commits.records((transaction) => outbox.settle(transaction, delivery, again));
  }

  usedOn(owner: Owner, at: number): Promise<{ tokens: number; cost: number }> {
    return records.usedOn(this.#db, owner, at);
  }

  budgets(now: number, filter?: { key?: BudgetKey; limit?: number }): Promise<Budget[]> {
    return listBudgets(this.#db, now, filter);
  }

  saveBudget(key: BudgetKey, limits: BudgetLimits, period: BudgetPeriod, now: number): Promise<void> {
    return this.#commits.records((transaction) => saveBudget(transaction, key, limits, period, now));
  }

  removeBudget(key: BudgetKey): Promise<boolean> {
    return this.#remove("DELETE FROM {budgets} WHERE key = $1", key);
  }

  reserve(reservation: Reservation, now: number): Promise<Reserved> {
    const locks = reservation.holds.map(({ key }) => `budget ${key}`);
    return this.#commits.records((transaction) => reserve(transaction, reservation, now), { locks });
  }

  usedBelow(id: string): Promise<{ responses: number; tokens: number; cost: number }> {
    return usedBelow(this.#db, id);
  }

  schedules(dueAt?: number): Promise<Schedule[]> {
    return listSchedules(this.#db, dueAt);
  }

  saveSchedule(schedule: Schedule, seenAt?: number | null): Promise<boolean> {
    return this.#commits.records((transaction) => saveSchedule(transaction, schedule, seenAt));
  }

  removeSchedule(id: string): Promise<boolean> {
    return this.#remove("DELETE FROM {schedules} WHERE id = $1", id);
  }

  audit(entry: AuditEntry): Promise<void> {
    return this.#commits.records((transaction) => appendAudits(transaction, [entry]));
  }

  audits(after: number, limit: number): Promise<AuditRecord[]> {
    return listAudits(this.#db, after, limit);
  }

  auditEnd(): Promise<{ sequence: number; hash: string } | undefined> {
    return auditEnd(this.#db);
  }

  // ---- news

  version(): number {
    return this.#news.version();
  }

  changed(responseId: string, within: number): Promise<void> {
    return this.#news.changed(responseId, within);
  }

  async browsing(): Promise<Browsing> {
    const [{ Browser }, { PostgresBrowseSource }] = await Promise.all([
      import("./browse.ts"),
      import("./postgres-browse.ts"),
    ]);
    return new Browser(new PostgresBrowseSource(this.#db));
  }

  async copying(): Promise<Copying> {
    const { PostgresCopying } = await import("./postgres-copy.ts");
    return new PostgresCopying({
      db: this.#db,
      write: (work, locks) => this.#commits.records(work, { locks }),
      erase: () => this.#erasure.finish(),
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#erasure.close();
    this.#db.closing = true;
    await this.#commits.close();
    await this.#news.close();
    await this.#db.close();
  }
}
