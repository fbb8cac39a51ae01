/**
 * The small tables on Postgres: approvals, rules, controls, tokens.
 *
 * Invariant: an approval leaves "pending" once; a control is taken once; of the tokens in force no two have one name.
 */
import type { Approval, LearnedRule } from "../types/approval.ts";
import { RotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import type { Control, Store } from "../types/store.ts";
import type { Token } from "../types/token.ts";
import type { Parameter } from "./postgres-connection.ts";
import type { Reader, Transaction } from "./postgres-database.ts";
import { putApprovals } from "./postgres-rows.ts";

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

// ---- reads

export async function findApproval(reader: Reader, id: string): Promise<Approval | undefined> {
  const row = await reader.one<{ body: string }>("SELECT body FROM {approvals} WHERE id = $1", id);
  return row && (JSON.parse(row.body) as Approval);
}

export async function listApprovals(
  reader: Reader,
  { status, responseId, owner }: Parameters<Store["approvals"]>[0],
): Promise<Approval[]> {
  const where = [status ? "status = 'pending'" : "true"];
  const parameters: Parameter[] = [];
  if (responseId !== undefined) where.push(`response_id = $${parameters.push(responseId)}`);
  if (owner !== undefined) {
    const of = `node.id = approvals.response_id AND node.owner = $${parameters.push(owner)}`;
    where.push(`EXISTS (SELECT 1 FROM {responses} AS node WHERE ${of})`);
  }
  const sql = `SELECT body FROM {approvals} AS approvals WHERE ${where.join(" AND ")} ORDER BY id`;
  return (await reader.all<{ body: string }>(sql, ...parameters)).map(({ body }) => JSON.parse(body) as Approval);
}

export async function listRules(reader: Reader, holders?: readonly string[]): Promise<LearnedRule[]> {
  const sql = "SELECT * FROM {rules} WHERE $1::text[] IS NULL OR holder = ANY($1) ORDER BY id";
  const rows = await reader.all<RuleRow>(sql, holders ?? null);
  return rows.map(({ created_at: createdAt, ...rule }) => ({ ...rule, createdAt }));
}

export async function hasControls(reader: Reader, responseIds: readonly string[]): Promise<boolean> {
  if (responseIds.length === 0) return false;
  const sql = "SELECT 1 AS waits FROM {controls} WHERE response_id = ANY($1) LIMIT 1";
  return (await reader.one(sql, responseIds)) !== undefined;
}

export async function findToken(reader: Reader, id: string): Promise<Token | undefined> {
  const row = await reader.one<{ body: string }>("SELECT body FROM {tokens} WHERE id = $1", id);
  return row && (JSON.parse(row.body) as Token);
}

export async function listTokens(reader: Reader): Promise<Token[]> {
  const rows = await reader.all<{ body: string }>("SELECT body FROM {tokens} ORDER BY created_at, id");
  return rows.map(({ body }) => JSON.parse(body) as Token);
}

// ---- inside a transaction

export async function settleApproval(transaction: Transaction, approval: Approval): Promise<boolean> {
  const sql = "SELECT status FROM {approvals} WHERE id = $1 FOR UPDATE";
  const before = await transaction.one<{ status: string }>(sql, approval.id);
  if (before?.status !== "pending") return false;
  putApprovals(transaction, [approval]);
  return true;
}

export function addRule(transaction: Transaction, { id, scope, holder, rule, createdAt }: LearnedRule): void {
  const sql = "INSERT INTO {rules} (id, scope, holder, rule, created_at) VALUES ($1, $2, $3, $4, $5)";
  transaction.send(sql, id, scope, holder, rule, createdAt);
}

export function sendControl(transaction: Transaction, control: Omit<Control, "sequence">): void {
  transaction.send(
    "INSERT INTO {controls} (response_id, kind, reason, items) VALUES ($1, $2, $3, $4)",
    control.responseId,
    control.kind,
    control.reason,
    control.items && JSON.stringify(control.items),
  );
}

export async function takeControls(transaction: Transaction, responseIds: readonly string[]): Promise<Control[]> {
  const rows = await transaction.all<ControlRow>(
    "DELETE FROM {controls} WHERE response_id = ANY($1) RETURNING sequence, response_id, kind, reason, items",
    responseIds,
  );
  rows.sort((one, other) => one.sequence - other.sequence);
  return rows.map((row) => ({
    sequence: row.sequence,
    responseId: row.response_id,
    kind: row.kind,
    reason: row.reason,
    items: row.items === null ? null : (JSON.parse(row.items) as Item[]),
  }));
}

/** The transaction holds the lock "tokens". */
export async function saveToken(transaction: Transaction, token: Token): Promise<void> {
  const sql = "SELECT revoked_at FROM {tokens} WHERE id = $1";
  const known = await transaction.one<{ revoked_at: number | null }>(sql, token.id);
  if (token.revokedAt === null && (known?.revoked_at ?? null) !== null) {
    throw new RotundaError("usage", `the token ${JSON.stringify(token.name)} was revoked, and stays so`);
  }
  if (await isNameTaken(transaction, token)) {
    throw new RotundaError("usage", `there is already a token named ${JSON.stringify(token.name)}`, {
      remedy: `Choose another name, or take that one back first: rotunda token revoke ${token.name}`,
    });
  }
  transaction.send(
    `INSERT INTO {tokens} (id, name, created_at, expires_at, revoked_at, body) VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, expires_at = excluded.expires_at,
       revoked_at = excluded.revoked_at, body = excluded.body`,
    token.id,
    token.name,
    token.createdAt,
    token.expiresAt,
    token.revokedAt,
    JSON.stringify(token),
  );
}

async function isNameTaken(transaction: Transaction, { id, name, revokedAt, expiresAt }: Token): Promise<boolean> {
  const now = Date.now();
  if (revokedAt !== null || (expiresAt !== null && expiresAt <= now)) return false;
  const sql = `SELECT 1 AS taken FROM {tokens}
    WHERE name = $1 AND id <> $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`;
  return (await transaction.one(sql, name, id, now)) !== undefined;
}

export async function usedOn(reader: Reader, owner: string, at: number): Promise<{ tokens: number; cost: number }> {
  const used = await reader.one<{ tokens: number; cost: number }>(
    `SELECT coalesce(sum(tokens), 0)::float8 AS tokens, coalesce(sum(cost), 0)::float8 AS cost FROM (
       SELECT tokens, cost FROM {usage} WHERE owner = $1 AND day = $2
       UNION ALL SELECT entry.tokens, entry.cost FROM {responses} AS node JOIN {entries} AS entry USING (number)
         WHERE node.status IN ('in_progress', 'waiting') AND node.ended_at IS NULL AND node.owner = $1 AND entry.side = 1
     ) AS every`,
    owner,
    Math.floor(at / (24 * 3_600_000)),
  );
  return used ?? { tokens: 0, cost: 0 };
}
