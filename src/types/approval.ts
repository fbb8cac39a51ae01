/**
 * Approval: a question to a person about one call.
 *
 * Invariant: it is a row, answered at most once, bound by `digest` to exactly the call that was shown.
 */

export type ApprovalStatus = "pending" | "allowed" | "denied" | "withdrawn" | "expired";

/** How far an answer reaches: this call, the rest of the conversation, or always in this workspace. */
export type ApprovalScope = "once" | "session" | "always";

export interface Approval {
  /** Id of the `mcp_approval_request` item. */
  id: string;
  responseId: string;
  /** Id of the `mcp_call` item. */
  itemId: string;
  tool: string;
  /** Canonical JSON of the arguments. */
  arguments: string;
  /** SHA-256 over response, tool and canonical arguments. */
  digest: string;
  /** Why it asks: the rule or the mode. */
  why: string;
  /** The rule that "always this pattern" would add. */
  pattern: string;
  status: ApprovalStatus;
  reason: string | null;
  /** "terminal", "cli", or the name of a token. */
  decidedBy: string | null;
  createdAt: number;
  /** Milliseconds since the epoch after which nobody can answer any more. */
  expiresAt: number;
  decidedAt: number | null;
}

export interface Decision {
  decision: "allow" | "deny";
  scope?: ApprovalScope;
  /** For the model, with a denial. */
  reason?: string;
  /** Who decided: "terminal", "cli", a token's name. */
  by: string;
  /** For the audit log: "local" or a token's id. Default: `by`. */
  who?: string;
  /** For the audit log: the door that the answer came through. Default: `by`. */
  door?: string;
}

/** A rule that came from an answer. */
export interface LearnedRule {
  id: string;
  scope: "session" | "always";
  /** session: id of the conversation, or of the response if it has none. always: the workspace. */
  holder: string;
  rule: string;
  createdAt: number;
}
