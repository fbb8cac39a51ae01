/**
 * Token: who may come in through a remote door, and what for.
 *
 * Invariant: only the SHA-256 of a secret is ever stored; a token that was revoked or has expired opens nothing.
 * Form of the whole: `rtd_<id>_<secret>`, the id 12 characters, the secret 256 bits as 64 hexadecimal digits.
 */

export const scopes = [
  "chat",
  "responses:read",
  "responses:write",
  "tools:call",
  "approve",
  "mcp:admin",
  "settings",
  "admin",
] as const;

export type Scope = (typeof scopes)[number];

/** What a new token may do unless it is told otherwise. */
export const DEFAULT_SCOPES: readonly Scope[] = ["chat", "responses:read", "responses:write", "tools:call"];

export interface TokenLimits {
  requestsPerSecond: number;
  concurrentRuns: number;
  /** Open event streams. */
  streams: number;
  tokensPerDay: number;
  /** US dollars a day. */
  costPerDay: number;
}

export interface Token {
  /** Also the owner of what comes in through it. */
  id: string;
  /** Unique among the tokens in force. */
  name: string;
  /** SHA-256 of the secret's text, hexadecimal. */
  secretHash: string;
  scopes: Scope[];
  /** Globs over profile names; null: all. */
  profiles: string[] | null;
  limits: Partial<TokenLimits>;
  /** The dialect of its event streams on chat completions. */
  events: "openai" | "speakmcp";
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
}
