/**
 * The outbox: what becomes of outermost responses, for those who want to be told.
 *
 * Invariant: an event is written in the transaction of the change that it tells of; each question of a response is told
 * once; a row that was taken is nobody else's for a while, or until the process that took it is dead.
 */
import type { Delivery, OutboxEvent, OutboxEventType, Subscription } from "../types/outbox.ts";
import type { ResponseNode } from "../types/response.ts";
import { processState } from "../util/process-name.ts";
import { LIFE, MOST, type OutboxRow, outboxEvent, type SubscriptionRow, TAKEN, targetsOf } from "./outbox-rows.ts";
import { OUTPUT, PLACES, type ResponseRow } from "./rows.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import type { SqliteTree } from "./sqlite-tree.ts";

export class Outbox {
  readonly #db: SqliteDatabase;
  readonly #tree: SqliteTree;

  constructor(db: SqliteDatabase, tree: SqliteTree) {
    this.#db = db;
    this.#tree = tree;
  }

  // ---- inside the transaction of a change

  /** A response has ended. */
  ended({ number }: ResponseRow, node: ResponseNode): void {
    if (node.caller !== null) return;
    const type = `response.${node.status}` as OutboxEventType;
    const targets = this.#targets(type);
    if (targets.length === 0 || this.#isRecord(number, node)) return;
    this.#tell(type, targets, node, this.#asked(node.id, false));
  }

  /** A response, or a sub-agent's below it, has begun to wait for a person. */
  waits(node: ResponseNode): void {
    const targets = this.#targets("response.waiting");
    if (targets.length === 0) return;
    const asked = this.#asked(node.id, true);
    if (asked.length === 0) return;
    this.#db.run("UPDATE approvals SET told = 1 WHERE response_id = ? AND status = 'pending'", node.id);
    this.#tell("response.waiting", targets, this.#outermost(node), asked);
  }

  #targets(type: OutboxEventType): string[] {
    const sql = "SELECT target, events FROM subscriptions WHERE until > ?";
    return targetsOf(type, this.#db.all<SubscriptionRow>(sql, Date.now()));
  }

  /** Items that somebody brought along: nothing ran, so nothing is told. */
  #isRecord(number: number, { status }: ResponseNode): boolean {
    const output = number * PLACES + OUTPUT;
    const said = "SELECT 1 FROM entries WHERE key BETWEEN ? AND ? LIMIT 1";
    return status === "completed" && !this.#db.one(said, output, output + OUTPUT - 1);
  }

  #asked(responseId: string, untold: boolean): OutboxEvent["approvals"] {
    const sql = `SELECT id, json_extract(body, '$.tool') AS tool FROM approvals
      WHERE response_id = ? AND status = 'pending' AND (told = 0 OR ?) ORDER BY id`;
    return this.#db
      .all<{ id: string; tool: string }>(sql, responseId, untold ? 0 : 1)
      .map(({ id, tool }) => ({ id, responseId, tool }));
  }

  #outermost(node: ResponseNode): ResponseNode {
    const caller = node.caller && this.#tree.node(node.caller.responseId);
    return caller ? this.#outermost(caller) : node;
  }

  #tell(
    type: OutboxEventType,
    targets: readonly string[],
    node: ResponseNode,
    approvals: OutboxEvent["approvals"],
  ): void {
    const event = outboxEvent(type, node, approvals);
    const body = JSON.stringify(event);
    for (const target of targets) {
      const sql = "INSERT INTO outbox (target, due, attempts, created_at, body) VALUES (?, ?, 0, ?, ?)";
      this.#db.run(sql, target, event.at, event.at, body);
    }
  }

  // ---- those who deliver

  /** In force until a moment (milliseconds since the epoch). What a dead process was delivering is due again. */
  async subscribe(subscriptions: readonly Subscription[], until: number): Promise<void> {
    await this.#db.write(() => {
      const now = Date.now();
      for (const { target, events } of subscriptions) {
        const sql = "INSERT OR REPLACE INTO subscriptions (target, events, until) VALUES (?, ?, ?)";
        this.#db.run(sql, target, events && JSON.stringify(events), until);
      }
      this.#db.run("DELETE FROM subscriptions WHERE until <= ?", now);
      const taken = "SELECT DISTINCT process FROM outbox WHERE process IS NOT NULL";
      for (const { process } of this.#db.all<{ process: string }>(taken)) {
        if (processState(process) !== "dead") continue;
        this.#db.run("UPDATE outbox SET process = NULL, due = ? WHERE process = ?", now, process);
      }
      this.#db.run("DELETE FROM outbox WHERE created_at <= ?", now - LIFE);
      for (const { target } of subscriptions) {
        const newest = "SELECT sequence FROM outbox WHERE target = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?";
        const last = this.#db.one<{ sequence: number }>(newest, target, MOST);
        if (last) this.#db.run("DELETE FROM outbox WHERE target = ? AND sequence <= ?", target, last.sequence);
      }
    });
  }

  async take(target: string, limit: number, process: string): Promise<Delivery[]> {
    const due = "FROM outbox WHERE target = ? AND due <= ?";
    // Asked several times a second: nothing is written where there is nothing to do.
    if (limit <= 0 || !this.#db.one(`SELECT 1 ${due} LIMIT 1`, target, Date.now())) return [];
    return this.#db.write(() => {
      const now = Date.now();
      const sql = `SELECT sequence, target, attempts, body ${due} ORDER BY due, sequence LIMIT ?`;
      const rows = this.#db.all<OutboxRow>(sql, target, now, limit);
      for (const { sequence } of rows) {
        this.#db.run("UPDATE outbox SET process = ?, due = ? WHERE sequence = ?", process, now + TAKEN, sequence);
      }
      return rows.map(({ body, ...row }) => ({ ...row, event: JSON.parse(body) as OutboxEvent }));
    });
  }

  /** `again`: when it is tried next, in milliseconds since the epoch; null: it is over. */
  async settle({ sequence, attempts }: Pick<Delivery, "sequence" | "attempts">, again: number | null): Promise<void> {
    await this.#db.write(() => {
      if (again === null) this.#db.run("DELETE FROM outbox WHERE sequence = ?", sequence);
      else {
        const sql = "UPDATE outbox SET process = NULL, due = ?, attempts = ? WHERE sequence = ?";
        this.#db.run(sql, again, attempts, sequence);
      }
    });
  }
}
