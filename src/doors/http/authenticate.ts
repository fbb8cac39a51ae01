/**
 * Authentication: one way from a request to its identity, whatever header the token came in.
 *
 * Invariant: no token, a malformed, an unknown, a wrong, an expired and a revoked one are answered alike, with the
 * same work done and not before the same time has passed. A token in the address is never looked at.
 */
import { hash } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import type { Scope, Token } from "../../types/token.ts";
import { isSecret, splitToken } from "../../util/token.ts";
import { DoorError, unauthorized } from "./errors.ts";
import { type Identity, identityOf, isInForce, LOCAL_IDENTITY } from "./identity.ts";

export type TokenOf = (id: string) => Promise<Token | undefined>;

/** Who is signed in at the page; undefined where nobody is. Throws `origin_not_allowed`. */
export type SessionOf = (request: IncomingMessage) => Promise<Identity | undefined>;

/** Milliseconds after which a refusal leaves: longer than any lookup takes, so that it tells nothing of it. */
const REFUSAL = 1;

const NO_ID = "000000000000";
const NO_SECRET = "0".repeat(64);
const NO_HASH = hash("sha256", "nobody knows this one");

const IN_ADDRESS = /(?:^|&)(?:x-)?(?:access_?token|auth_?token|token|api[-_]?key|authorization|bearer)=/i;

export class Authenticator {
  readonly #localHash: string;
  readonly #tokenOf: TokenOf;
  readonly #required: boolean;

  /** Without a local token (`--auth none`) everybody is local. */
  constructor(localToken: string | undefined, tokenOf: TokenOf) {
    this.#required = localToken !== undefined;
    this.#localHash = localToken === undefined ? NO_HASH : hash("sha256", localToken);
    this.#tokenOf = tokenOf;
  }

  /** Whose request it is; a session counts only where there is no token. Throws `unauthorized`, `origin_not_allowed`. */
  async identify(request: IncomingMessage, search: string, sessionOf: SessionOf): Promise<Identity> {
    if (search !== "" && mayHoldToken(search)) {
      throw unauthorized("A token in the address is not taken: it ends up in logs. Send it as Authorization: Bearer.");
    }
    if (!this.#required) return LOCAL_IDENTITY;
    const { headers } = request;
    if (headers.cookie === undefined || CREDENTIALS.some((name) => headers[name] !== undefined)) {
      return this.identifyToken(credentialOf(headers) ?? "");
    }
    const due = wait(REFUSAL);
    const identity = await sessionOf(request);
    if (identity) return identity;
    await due;
    throw unauthorized();
  }

  /** Whose token it is. Throws `unauthorized`. */
  async identifyToken(given: string): Promise<Identity> {
    if (isSecret(given, this.#localHash)) return LOCAL_IDENTITY;
    const due = wait(REFUSAL);
    const identity = await this.#named(given);
    if (identity) return identity;
    await due;
    throw unauthorized();
  }

  async #named(given: string): Promise<Identity | undefined> {
    const parts = splitToken(given);
    const token = await this.#tokenOf(parts?.id ?? NO_ID);
    const right = isSecret(parts?.secret ?? NO_SECRET, token?.secretHash ?? NO_HASH);
    return token && parts && right && isInForce(token, Date.now()) ? identityOf(token) : undefined;
  }
}

const CREDENTIALS = ["authorization", "x-api-key", "api-key"] as const;

function mayHoldToken(search: string): boolean {
  return IN_ADDRESS.test(search.includes("%") ? search.replaceAll(/%5f/gi, "_").replaceAll(/%2d/gi, "-") : search);
}

/** The one credential of a request; undefined where there is none, or where there are two that differ. */
function credentialOf(headers: IncomingHttpHeaders): string | undefined {
  const { authorization } = headers;
  // Of a header that came twice the values stand joined by a comma, and fit no form.
  const bearer = authorization === undefined ? undefined : (/^Bearer +([^\s,]+) *$/i.exec(authorization)?.[1] ?? "");
  const given = [bearer, headers["x-api-key"], headers["api-key"]].filter((one) => one !== undefined).map(String);
  const [first] = given;
  return given.every((one) => one === first) ? first : undefined;
}

/** The first of the scopes that the identity has. Throws `insufficient_scope` where it has none of them. */
export function requireScope(identity: Identity, wanted: Scope | readonly Scope[]): Scope {
  const any = typeof wanted === "string" ? [wanted] : wanted;
  const granted = any.find((scope) => identity.scopes.includes(scope));
  if (granted !== undefined) return granted;
  throw new DoorError("insufficient_scope", `This token lacks the scope ${any.join(" or ")}.`);
}
