/**
 * Audit: who did what, when, and who allowed it.
 *
 * Invariant: an append-only chain: each record's hash covers its text and the hash before it, so that a record
 * that was changed, removed or put in is found. No secret and no plain argument text that was not redacted.
 */
import type { Json } from "./json.ts";

export type AuditAction =
  /** A tool call has its outcome. */
  | "tool_call"
  | "approval"
  /** A question of an MCP server was answered. */
  | "elicitation"
  | "direct_call"
  | "token"
  | "settings"
  | "server"
  | "profile"
  | "cancel"
  | "delete"
  | "emergency_stop";

export interface AuditEntry {
  action: AuditAction;
  /** "local", "cli", or a token's id. */
  who: string;
  door: string;
  responseId: string | null;
  /** Milliseconds since the epoch. */
  at: number;
  /** Tool, redacted arguments, digests, decision, rule, approver, sandbox level …: whatever the action has. */
  details: { [key: string]: Json };
}

export interface AuditRecord extends AuditEntry {
  /** From 1, without gaps. */
  sequence: number;
  /** SHA-256 (hexadecimal) over the hash before it (64 zeros for the first) and the stored text. */
  hash: string;
  /** False: its text does not give its hash. */
  intact: boolean;
}
