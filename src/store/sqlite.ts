/**
 * Store on SQLite: one file in the state directory, shared by any number of processes on the machine.
 *
 * Invariant: WAL with `synchronous=FULL`: a commit that has returned survives a power cut. Every write of
 * a run checks the run's fence inside the same transaction.
 */
import type { DatabaseSync } from "node:sqlite";
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import type { Entry, Item } from "../types/item.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Batch, IdKind, Lease, NewResponse, ResponseFilter, Store, StoredResponse } from "../types/store.ts";
import { ownerState } from "../util/owner.ts";
import { decodeEvents, encodeEvents } from "./codec.ts";
import { bodyOf, damaged, type EntryRow, entryOf, hashOf, nodeOf, type ResponseRow } from "./rows.ts";
import { openDatabase } from "./sqlite-open.ts";
import { type Parameter, type SqliteOptions, SqliteRecords } from "./sqlite-records.ts";

export type { SqliteOptions };

const LEASE = 30_000;
/** Places of one response in the keys of entries and of events (see schema.ts). */
const PLACES = 2 ** 24;
const OUTPUT = PLACES / 2;

export async function openSqliteStore(path: string, options: SqliteOptions = {}): Promise<Store> {
  return new SqliteStore(await openDatabase(path), options);
}

class SqliteStore extends SqliteRecords implements Store {
  readonly #lease: number;

  constructor(db: DatabaseSync, options: SqliteOptions) {
    super(db, options);
    this.#lease = options.lease ?? LEASE;
  }

  // ---- writes

  async create(response: NewResponse): Promise<void> {
    await this.clock.write(() => this.#insert(response), true);
  }

  #insert({ node, input, events, owner, conversation }: NewResponse): void {
    const row = this.one<{ number: number }>(
      `INSERT INTO responses (id, previous_response_id, caller_response_id, caller_item_id, conversation_id, status,
         body, owner, fence, lease_until, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) RETURNING number`,
      node.id,
      node.previousResponseId,
      node.caller?.responseId ?? null,
      node.caller?.itemId ?? null,
      node.conversationId,
      node.status,
      bodyOf(node),
      owner,
      node.createdAt + this.#lease,
      node.createdAt,
    );
    const number = row?.number ?? 0;
    for (const entry of input) this.#putEntry(number, entry);
    this.#putEvents(number, events);
    if (conversation) this.putConversation(conversation);
  }

  #putEntry(number: number, { side, position, turn, item, meta }: Entry): void {
    this.run(
      `INSERT INTO entries (key, turn, item, meta) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET turn = excluded.turn, item = excluded.item, meta = excluded.meta`,
      number * PLACES + (side === "output" ? OUTPUT : 0) + position,
      turn,
      JSON.stringify(item),
      JSON.stringify(meta),
    );
  }

  #putEvents(number: number, events: readonly RunEvent[]): void {
    const first = events[0]?.sequence_number;
    if (first === undefined) return;
    const last = first + events.length - 1;
    if (last >= PLACES) throw new RotundaError("limit_reached", "a response can have no more events");
    this.run(
      "INSERT INTO events (key, last, body) VALUES (?, ?, ?)",
      number * PLACES + first,
      last,
      encodeEvents(events),
    );
  }

  append(batch: Batch, now: boolean): Promise<void> {
    return this.clock.write(() => this.#apply(batch), now);
  }

  hurry(): void {
    this.clock.hurry();
  }

  #apply(batch: Batch): void {
    batch.sealed = true;
    const open = this.one<{ number: number }>(
      "SELECT number FROM responses WHERE id = ? AND fence = ? AND ended_at IS NULL",
      batch.responseId,
      batch.fence,
    );
    if (!open) {
      throw new RotundaError("owned_elsewhere", `response ${batch.responseId} is no longer run by this process`);
    }
    for (const entry of batch.entries) this.#putEntry(open.number, entry);
    this.#putEvents(open.number, batch.events);
    for (const output of batch.outputs) {
      this.run(
        "INSERT INTO outputs (item_id, response_id, text) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET text = excluded.text",
        output.itemId,
        batch.responseId,
        output.text,
      );
    }
    for (const approval of batch.approvals) this.putApproval(approval);
    if (batch.node) this.#update(batch.responseId, batch.node);
  }

  #update(id: string, change: Partial<ResponseNode>): void {
    const row = this.#row(id);
    if (!row) throw damaged(id, "it is missing");
    const node = { ...nodeOf(row), ...change };
    row.status = node.status;
    row.body = bodyOf(node);
    row.ended_at = node.endedAt;
    if (node.endedAt === null) {
      this.run("UPDATE responses SET status = ?, body = ? WHERE id = ?", row.status, row.body, row.id);
      return;
    }
    this.run(
      "UPDATE responses SET status = ?, body = ?, ended_at = ?, hash = ?, owner = NULL WHERE id = ?",
      row.status,
      row.body,
      row.ended_at,
      hashOf(row, this.#entryRows(row.number), this.#parentHash(row)),
      row.id,
    );
    if (node.conversationId !== null) this.#touchConversation(row.number, node);
  }

  /** A turn that failed with nothing said leaves the conversation where it was before. */
  #touchConversation(number: number, node: ResponseNode): void {
    const output = number * PLACES + OUTPUT;
    const said = this.one("SELECT 1 FROM entries WHERE key BETWEEN ? AND ? LIMIT 1", output, output + OUTPUT - 1);
    if (node.status === "failed" && !said) {
      this.run(
        "UPDATE conversations SET head = ?, updated_at = ? WHERE id = ? AND head = ?",
        node.previousResponseId,
        node.endedAt,
        node.conversationId,
        node.id,
      );
    }
  }

  #parentHash(row: ResponseRow): string | null {
    if (row.previous_response_id === null) return null;
    return (
      this.one<{ hash: string | null }>("SELECT hash FROM responses WHERE id = ?", row.previous_response_id)?.hash ??
      null
    );
  }

  #entryRows(number: number): EntryRow[] {
    return this.all<EntryRow>(
      `SELECT key >> 23 & 1 AS side, key & 8388607 AS position, turn, item, meta FROM entries
       WHERE key BETWEEN ? AND ? ORDER BY key`,
      number * PLACES,
      number * PLACES + PLACES - 1,
    );
  }

  // ---- reads

  async node(id: string): Promise<ResponseNode | undefined> {
    const row = this.#row(id);
    return row && nodeOf(row);
  }

  #row(id: string): ResponseRow | undefined {
    return this.one<ResponseRow>("SELECT * FROM responses WHERE id = ?", id);
  }

  async get(id: string): Promise<StoredResponse | undefined> {
    const row = this.#row(id);
    return row && this.#load(row, this.#parentHash(row));
  }

  #load(row: ResponseRow, parentHash: string | null): StoredResponse {
    const rows = this.#entryRows(row.number);
    if (row.hash !== null && hashOf(row, rows, parentHash) !== row.hash) {
      throw damaged(row.id, "its content does not match its hash");
    }
    return { node: nodeOf(row), entries: rows.map((entry) => entryOf(entry, row.id)) };
  }

  async path(id: string, known: (id: string) => boolean = () => false): Promise<StoredResponse[]> {
    const rows: ResponseRow[] = [];
    let parentHash: string | null = null;
    for (let next: string | null = id; next !== null; ) {
      const row = this.#row(next);
      if (!row) throw damaged(next, "it is missing");
      if (known(next)) {
        parentHash = row.hash;
        break;
      }
      rows.push(row);
      next = row.previous_response_id;
    }
    return rows.reverse().map((row) => {
      const loaded = this.#load(row, parentHash);
      parentHash = row.hash;
      return loaded;
    });
  }

  async children(id: string): Promise<ResponseNode[]> {
    return this.all<ResponseRow>("SELECT * FROM responses WHERE previous_response_id = ? ORDER BY id", id).map(nodeOf);
  }

  async list(filter: ResponseFilter): Promise<ResponseNode[]> {
    const where: string[] = [];
    const parameters: Parameter[] = [];
    if (filter.status) {
      where.push(`status IN (${filter.status.map(() => "?").join(", ")})`);
      parameters.push(...filter.status);
      if (filter.status.every((status) => ["queued", "in_progress", "waiting"].includes(status))) {
        where.push("ended_at IS NULL");
      }
    }
    if (filter.conversationId !== undefined) {
      where.push("conversation_id = ?");
      parameters.push(filter.conversationId);
    }
    if (filter.callerResponseId !== undefined) {
      where.push("caller_response_id = ?");
      parameters.push(filter.callerResponseId);
    }
    if (filter.roots) where.push("previous_response_id IS NULL AND caller_response_id IS NULL");
    const condition = where.length > 0 ? `WHERE ${where.join(" AND ")}` : "";
    return this.all<ResponseRow>(
      `SELECT * FROM responses ${condition} ORDER BY id DESC LIMIT ?`,
      ...parameters,
      filter.limit ?? 100,
    ).map(nodeOf);
  }

  async events(responseId: string, after: number, limit: number): Promise<RunEvent[]> {
    const number = this.#row(responseId)?.number;
    if (number === undefined) return [];
    const rows = this.all<{ first: number; body: string }>(
      `SELECT key & 16777215 AS first, body FROM events
       WHERE key BETWEEN ? AND ? AND last > ? ORDER BY key LIMIT ?`,
      number * PLACES,
      number * PLACES + PLACES - 1,
      after,
      limit,
    );
    if (rows.length === 0) return [];
    const items: Item[] = [];
    for (const row of this.#entryRows(number)) {
      if (row.side === 1) items[row.position] = entryOf(row, responseId).item;
    }
    const added = new Map<number, Item>();
    const itemAt = (index: number) => items[index] ?? added.get(index) ?? this.#itemAdded(number, after, index);
    const events: RunEvent[] = [];
    for (const row of rows) {
      for (const event of decodeEvents(row.first, row.body, itemAt)) {
        if (event.type === "response.output_item.added") added.set(event.output_index, event.item);
        if (event.sequence_number > after && events.length < limit) events.push(event);
      }
    }
    return events;
  }

  /** An item that is still being said has no row yet: as it was when it was added, up to `after`. */
  #itemAdded(number: number, after: number, index: number): Item | undefined {
    const row = this.one<{ item: string }>(
      `SELECT json_extract(record.value, '$[2]') AS item FROM events, json_each(events.body) AS record
       WHERE events.key BETWEEN ? AND ? AND json_extract(record.value, '$[0]') = 'A'
         AND json_extract(record.value, '$[1]') = ?`,
      number * PLACES,
      number * PLACES + after,
      index,
    );
    return row && (JSON.parse(row.item) as Item);
  }

  async output(itemId: string): Promise<string | undefined> {
    return this.one<{ text: string }>("SELECT text FROM outputs WHERE item_id = ?", itemId)?.text;
  }

  async resolve(part: string, kinds: readonly IdKind[]): Promise<string[]> {
    const found: string[] = [];
    const tables = { response: "responses", conversation: "conversations", item: "outputs", approval: "approvals" };
    const prefixes = { response: "resp_", conversation: "conv_", item: "mcp_", approval: "mcpr_" };
    for (const kind of kinds) {
      const column = kind === "item" ? "item_id" : "id";
      const prefix = part.includes("_") ? part : prefixes[kind] + part;
      const rows = this.all<{ id: string }>(
        `SELECT ${column} AS id FROM ${tables[kind]} WHERE ${column} >= ? AND ${column} < ?
         UNION SELECT ${column} FROM ${tables[kind]} WHERE substr(${column}, ?) = ? LIMIT 10`,
        prefix,
        `${prefix}\u007f`,
        -part.length,
        part,
      );
      found.push(...rows.map((row) => row.id));
    }
    return found;
  }

  // ---- leases

  async claim(responseId: string, owner: string): Promise<Lease | undefined> {
    return this.clock.write(() => {
      const row = this.#row(responseId);
      if (!row || row.ended_at !== null) return undefined;
      if (row.owner !== null && row.owner !== owner) {
        const state = ownerState(row.owner);
        if (state === "alive" || (state === "elsewhere" && row.lease_until > Date.now())) return undefined;
      }
      const fence = row.fence + 1;
      this.run(
        "UPDATE responses SET owner = ?, fence = ?, lease_until = ? WHERE id = ?",
        owner,
        fence,
        Date.now() + this.#lease,
        responseId,
      );
      return { owner, fence };
    }, true);
  }

  async release(responseId: string, lease: Lease): Promise<void> {
    await this.clock.write(
      () => this.run("UPDATE responses SET owner = NULL WHERE id = ? AND fence = ?", responseId, lease.fence),
      true,
    );
  }

  async renew(owner: string): Promise<void> {
    await this.clock.write(
      () =>
        this.run(
          "UPDATE responses SET lease_until = ? WHERE ended_at IS NULL AND owner = ?",
          Date.now() + this.#lease,
          owner,
        ),
      true,
    );
  }

  async leaseOf(responseId: string): Promise<Lease | undefined> {
    const row = this.#row(responseId);
    return row?.owner ? { owner: row.owner, fence: row.fence } : undefined;
  }
}
