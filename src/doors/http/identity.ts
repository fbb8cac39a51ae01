/** Identity: who asks, found out once for each request. */
import type { Owner } from "../../types/response.ts";
import { type Scope, scopes, type Token, type TokenLimits } from "../../types/token.ts";
import { matchesName } from "../../util/text.ts";

export interface Identity {
  /** Whose rows it sees and makes: "local", or the id of a token. */
  owner: Owner;
  /** For logs and for `decidedBy`: "local", a token's name, or "nobody". */
  name: string;
  /** The local token: sees everything, of every owner. */
  local: boolean;
  scopes: readonly Scope[];
  token: Token | undefined;
  limits: TokenLimits;
  /** It asks through the page, with a cookie. */
  session?: PageSession;
}

export interface PageSession {
  /** Names the session and tells nothing of it. */
  name: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** A runaway loop is stopped, an ordinary program never notices. */
const NAMED: TokenLimits = {
  requestsPerSecond: 1_000,
  concurrentRuns: 200,
  streams: 200,
  tokensPerDay: Number.POSITIVE_INFINITY,
  costPerDay: Number.POSITIVE_INFINITY,
};

const WITHOUT: TokenLimits = {
  requestsPerSecond: Number.POSITIVE_INFINITY,
  concurrentRuns: Number.POSITIVE_INFINITY,
  streams: 5_000,
  tokensPerDay: Number.POSITIVE_INFINITY,
  costPerDay: Number.POSITIVE_INFINITY,
};

export const LOCAL_IDENTITY: Identity = {
  owner: "local",
  name: "local",
  local: true,
  scopes,
  token: undefined,
  limits: WITHOUT,
};

/** Whoever comes to an open route, and whoever has not been looked at yet. */
export const NOBODY: Identity = {
  owner: "nobody",
  name: "nobody",
  local: false,
  scopes: [],
  token: undefined,
  limits: NAMED,
};

export function identityOf(token: Token): Identity {
  return {
    owner: token.id,
    name: token.name,
    local: false,
    scopes: token.scopes,
    token,
    limits: { ...NAMED, ...token.limits },
  };
}

/** Whether the token's list of profiles, if it has one, names a profile. */
export function mayUseProfile({ token }: Identity, profile: string): boolean {
  return token?.profiles?.some((glob) => matchesName(glob, profile)) ?? true;
}

/** Whether a token may still be used. `now` in milliseconds since the epoch. */
export function isInForce(token: Token, now: number): boolean {
  return token.revokedAt === null && (token.expiresAt === null || token.expiresAt > now);
}
