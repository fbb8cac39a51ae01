/**
 * The small tables: approvals, rules, controls, tokens.
 *
 * Invariant: an approval leaves "pending" once; a control is taken once; of the tokens in force no two have one name.
 */
import type { Approval, LearnedRule } from "../types/approval.ts";
import type { Browsing } from "../types/browsing.ts";
import { RotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import type { Control, Store } from "../types/store.ts";
import type { Token } from "../types/token.ts";
import { Budgets } from "./sqlite-budgets.ts";
import type { Parameter, SqliteDatabase } from "./sqlite-database.ts";

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

export class Records extends Budgets {
  readonly #db: SqliteDatabase;

  constructor(db: SqliteDatabase) {
    super(db);
    this.#db = db;
  }

  async browsing(): Promise<Browsing> {
    const [{ Browser }, { SqliteBrowseSource }] = await Promise.all([
      import("./browse.ts"),
      import("./sqlite-browse.ts"),
    ]);
    return new Browser(new SqliteBrowseSource(this.#db));
  }

  /** Inside a transaction. */
  putApproval(approval: Approval): void {
    this.#db.run(
      "INSERT OR REPLACE INTO approvals (id, response_id, status, body) VALUES (?, ?, ?, ?)",
      approval.id,
      approval.responseId,
      approval.status,
      JSON.stringify(approval),
    );
  }

  async approval(id: string): Promise<Approval | undefined> {
    const row = this.#db.one<{ body: string }>("SELECT body FROM approvals WHERE id = ?", id);
    return row && (JSON.parse(row.body) as Approval);
  }

  async approvals({ status, responseId, owner }: Parameters<Store["approvals"]>[0]): Promise<Approval[]> {
    const where = [status ? "approvals.status = 'pending'" : "1"];
    const parameters: Parameter[] = [];
    if (responseId !== undefined) {
      where.push("approvals.response_id = ?");
      parameters.push(responseId);
    }
    if (owner !== undefined) {
      where.push("EXISTS (SELECT 1 FROM responses WHERE id = approvals.response_id AND owner = ?)");
      parameters.push(owner);
    }
    return this.#db
      .all<{ body: string }>(
        `SELECT body FROM approvals WHERE ${where.join(" AND ")} ORDER BY approvals.id`,
        ...parameters,
      )
      .map((row) => JSON.parse(row.body) as Approval);
  }

  async settleApproval(approval: Approval): Promise<boolean> {
    return this.#db.write(() => {
      const before = this.#db.one<{ status: string }>("SELECT status FROM approvals WHERE id = ?", approval.id);
      if (before?.status !== "pending") return false;
      this.putApproval(approval);
      return true;
    });
  }

  async rules(holders?: readonly string[]): Promise<LearnedRule[]> {
    return this.#db
      .all<RuleRow>(
        "SELECT * FROM rules WHERE ?1 IS NULL OR holder IN (SELECT value FROM json_each(?1)) ORDER BY id",
        holders ? JSON.stringify(holders) : null,
      )
      .map(({ created_at: createdAt, ...rule }) => ({ ...rule, createdAt }));
  }

  async addRule(rule: LearnedRule): Promise<void> {
    await this.#db.write(() =>
      this.#db.run(
        "INSERT INTO rules (id, scope, holder, rule, created_at) VALUES (?, ?, ?, ?, ?)",
        rule.id,
        rule.scope,
        rule.holder,
        rule.rule,
        rule.createdAt,
      ),
    );
  }

  async removeRule(id: string): Promise<boolean> {
    return this.#db.write(() => this.#db.run("DELETE FROM rules WHERE id = ?", id) > 0);
  }

  async sendControl(control: Omit<Control, "sequence">): Promise<void> {
    await this.#db.write(() =>
      this.#db.run(
        "INSERT INTO controls (response_id, kind, reason, items) VALUES (?, ?, ?, ?)",
        control.responseId,
        control.kind,
        control.reason,
        control.items && JSON.stringify(control.items),
      ),
    );
  }

  async takeControls(responseIds: readonly string[]): Promise<Control[]> {
    const wanted = JSON.stringify(responseIds);
    const condition = "response_id IN (SELECT value FROM json_each(?))";
    if (!this.#db.one(`SELECT 1 FROM controls WHERE ${condition} LIMIT 1`, wanted)) return [];
    return this.#db.write(() => {
      const rows = this.#db.all<ControlRow>(`SELECT * FROM controls WHERE ${condition} ORDER BY sequence`, wanted);
      this.#db.run(`DELETE FROM controls WHERE ${condition}`, wanted);
      return rows.map((row) => ({
        sequence: row.sequence,
        responseId: row.response_id,
        kind: row.kind,
        reason: row.reason,
        items: row.items === null ? null : (JSON.parse(row.items) as Item[]),
      }));
    });
  }

  async token(id: string): Promise<Token | undefined> {
    const row = this.#db.one<{ body: string }>("SELECT body FROM tokens WHERE id = ?", id);
    return row && (JSON.parse(row.body) as Token);
  }

  async tokens(): Promise<Token[]> {
    return this.#db
      .all<{ body: string }>("SELECT body FROM tokens ORDER BY created_at, id")
      .map((row) => JSON.parse(row.body) as Token);
  }

  async saveToken(token: Token): Promise<void> {
    await this.#db.write(() => {
      const known = this.#db.one<{ revoked_at: number | null }>("SELECT revoked_at FROM tokens WHERE id = ?", token.id);
      if (token.revokedAt === null && (known?.revoked_at ?? null) !== null) {
        throw new RotundaError("usage", `the token ${JSON.stringify(token.name)} was revoked, and stays so`);
      }
      if (this.#isNameTaken(token)) {
        throw new RotundaError("usage", `there is already a token named ${JSON.stringify(token.name)}`, {
          remedy: `Choose another name, or take that one back first: rotunda token revoke ${token.name}`,
        });
      }
      this.#db.run(
        `INSERT INTO tokens (id, name, created_at, expires_at, revoked_at, body) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, expires_at = excluded.expires_at,
           revoked_at = excluded.revoked_at, body = excluded.body`,
        token.id,
        token.name,
        token.createdAt,
        token.expiresAt,
        token.revokedAt,
        JSON.stringify(token),
      );
    });
  }

  #isNameTaken({ id, name, revokedAt, expiresAt }: Token): boolean {
    const now = Date.now();
    if (revokedAt !== null || (expiresAt !== null && expiresAt <= now)) return false;
    const condition = "name = ? AND id <> ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)";
    return this.#db.one(`SELECT 1 FROM tokens WHERE ${condition}`, name, id, now) !== undefined;
  }
}
