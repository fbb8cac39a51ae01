/**
 * What every table of the SQLite store shares (prepared statements, the commit clock), and the small
 * tables: conversations, approvals, rules, controls.
 *
 * Invariant: an approval leaves "pending" once; a control is taken once.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Approval, LearnedRule } from "../types/approval.ts";
import type { Item } from "../types/item.ts";
import type { Conversation } from "../types/response.ts";
import type { Control } from "../types/store.ts";
import { CommitClock } from "./clock.ts";
import { explain, isBusy } from "./sqlite-open.ts";

export interface SqliteOptions {
  /** Called before and after each commit; tests kill the process there. */
  probe?: (moment: "before" | "after") => void;
  /** Milliseconds of a lease. Default 30,000. */
  lease?: number;
}

export type Parameter = string | number | null;

interface ConversationRow {
  id: string;
  name: string | null;
  title: string;
  head: string | null;
  workspace: string;
  created_at: number;
  updated_at: number;
}

function conversationOf(row: ConversationRow): Conversation {
  const { created_at: createdAt, updated_at: updatedAt, ...rest } = row;
  return { ...rest, createdAt, updatedAt };
}

interface RuleRow {
  id: string;
  scope: "session" | "always";
  holder: string;
  rule: string;
  created_at: number;
}

interface ControlRow {
  sequence: number;
  response_id: string;
  kind: Control["kind"];
  reason: string | null;
  items: string | null;
}

export class SqliteRecords {
  protected readonly clock: CommitClock;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync, options: SqliteOptions) {
    this.#db = db;
    const transactions = {
      begin: () => {
        try {
          this.run("BEGIN IMMEDIATE");
          return true;
        } catch (error) {
          if (isBusy(error)) return false;
          throw error;
        }
      },
      commit: () => void this.run("COMMIT"),
      rollback: () => void this.run("ROLLBACK"),
      explain,
    };
    this.clock = new CommitClock(transactions, options.probe);
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  protected run(sql: string, ...parameters: Parameter[]): number {
    return Number(this.#prepare(sql).run(...parameters).changes);
  }

  protected one<T>(sql: string, ...parameters: Parameter[]): T | undefined {
    return this.#prepare(sql).get(...parameters) as T | undefined;
  }

  protected all<T>(sql: string, ...parameters: Parameter[]): T[] {
    return this.#prepare(sql).all(...parameters) as T[];
  }

  protected putConversation(conversation: Conversation): void {
    this.run(
      `INSERT INTO conversations (id, name, title, head, workspace, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, title = excluded.title, head = excluded.head,
         updated_at = excluded.updated_at`,
      conversation.id,
      conversation.name,
      conversation.title,
      conversation.head,
      conversation.workspace,
      conversation.createdAt,
      conversation.updatedAt,
    );
  }

  async conversation(idOrName: string): Promise<Conversation | undefined> {
    const row = this.one<ConversationRow>("SELECT * FROM conversations WHERE id = ? OR name = ?", idOrName, idOrName);
    return row && conversationOf(row);
  }

  async conversations(limit: number, workspace?: string): Promise<Conversation[]> {
    return this.all<ConversationRow>(
      "SELECT * FROM conversations WHERE ?1 IS NULL OR workspace = ?1 ORDER BY updated_at DESC, id DESC LIMIT ?2",
      workspace ?? null,
      limit,
    ).map(conversationOf);
  }

  async saveConversation(conversation: Conversation): Promise<void> {
    await this.clock.write(() => this.putConversation(conversation), true);
  }

  protected putApproval(approval: Approval): void {
    this.run(
      "INSERT OR REPLACE INTO approvals (id, response_id, status, body) VALUES (?, ?, ?, ?)",
      approval.id,
      approval.responseId,
      approval.status,
      JSON.stringify(approval),
    );
  }

  async approval(id: string): Promise<Approval | undefined> {
    const row = this.one<{ body: string }>("SELECT body FROM approvals WHERE id = ?", id);
    return row && (JSON.parse(row.body) as Approval);
  }

  async approvals(filter: { status?: "pending"; responseId?: string }): Promise<Approval[]> {
    return this.all<{ body: string }>(
      `SELECT body FROM approvals WHERE ${filter.status ? "status = 'pending'" : "1"}
       AND (?1 IS NULL OR response_id = ?1) ORDER BY id`,
      filter.responseId ?? null,
    ).map((row) => JSON.parse(row.body) as Approval);
  }

  async settleApproval(approval: Approval): Promise<boolean> {
    return this.clock.write(() => {
      const before = this.one<{ status: string }>("SELECT status FROM approvals WHERE id = ?", approval.id);
      if (before?.status !== "pending") return false;
      this.putApproval(approval);
      return true;
    }, true);
  }

  async rules(holders?: readonly string[]): Promise<LearnedRule[]> {
    return this.all<RuleRow>(
      "SELECT * FROM rules WHERE ?1 IS NULL OR holder IN (SELECT value FROM json_each(?1)) ORDER BY id",
      holders ? JSON.stringify(holders) : null,
    ).map(({ created_at: createdAt, ...rule }) => ({ ...rule, createdAt }));
  }

  async addRule(rule: LearnedRule): Promise<void> {
    await this.clock.write(
      () =>
        this.run(
          "INSERT INTO rules (id, scope, holder, rule, created_at) VALUES (?, ?, ?, ?, ?)",
          rule.id,
          rule.scope,
          rule.holder,
          rule.rule,
          rule.createdAt,
        ),
      true,
    );
  }

  async removeRule(id: string): Promise<boolean> {
    return this.clock.write(() => this.run("DELETE FROM rules WHERE id = ?", id) > 0, true);
  }

  async sendControl(control: Omit<Control, "sequence">): Promise<void> {
    await this.clock.write(
      () =>
        this.run(
          "INSERT INTO controls (response_id, kind, reason, items) VALUES (?, ?, ?, ?)",
          control.responseId,
          control.kind,
          control.reason,
          control.items && JSON.stringify(control.items),
        ),
      true,
    );
  }

  async takeControls(responseIds: readonly string[]): Promise<Control[]> {
    const wanted = JSON.stringify(responseIds);
    const condition = "response_id IN (SELECT value FROM json_each(?))";
    if (!this.one(`SELECT 1 FROM controls WHERE ${condition} LIMIT 1`, wanted)) return [];
    return this.clock.write(() => {
      const rows = this.all<ControlRow>(`SELECT * FROM controls WHERE ${condition} ORDER BY sequence`, wanted);
      this.run(`DELETE FROM controls WHERE ${condition}`, wanted);
      return rows.map((row) => ({
        sequence: row.sequence,
        responseId: row.response_id,
        kind: row.kind,
        reason: row.reason,
        items: row.items === null ? null : (JSON.parse(row.items) as Item[]),
      }));
    }, true);
  }

  version(): number {
    return this.one<{ data_version: number }>("PRAGMA data_version")?.data_version ?? 0;
  }

  async close(): Promise<void> {
    this.clock.flush();
    this.#statements.clear();
    this.#db.close();
  }
}
