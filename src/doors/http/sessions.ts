/**
 * Sessions of the page: who signs in, who is signed in, who signs out.
 *
 * Invariant: a session opens a request only together with the page's half of it, and only where the browser says that
 * our own page asks. What is a session of a token ends with the token. A code signs in once, within 15 minutes.
 */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { RotundaError } from "../../types/error.ts";
import type { Store } from "../../types/store.ts";
import { isSecret, splitToken } from "../../util/token.ts";
import { DoorError, unauthorized } from "./errors.ts";
import { type Identity, identityOf, isInForce, LOCAL_IDENTITY } from "./identity.ts";
import type { Origins } from "./origins.ts";
import {
  CSRF_HEADER,
  cookiesNamed,
  isOtherHalf,
  localSecret,
  makeSession,
  type ParsedCookie,
  parseCookie,
  SESSION_LENGTH,
  secretOf,
} from "./session-cookie.ts";

export interface SessionParts {
  /** Undefined: nobody needs to sign in. */
  localToken: string | undefined;
  /** Whose token a text is. Throws `unauthorized`. */
  identify(token: string): Promise<Identity>;
  store: Pick<Store, "token" | "idempotency" | "saveIdempotency">;
  behindProxy: boolean;
}

export interface NewSession {
  identity: Identity;
  csrf: string;
  /** A whole `set-cookie`. */
  cookie: string;
}

/** Milliseconds. */
const CODE_LENGTH = 15 * 60_000;
/** Codes that have not been used, at most: the oldest ones go. */
const MOST_CODES = 100;
/** Wrong attempts of one address at once, and milliseconds until it has one more. */
const ATTEMPTS = 10;
const NEW_ATTEMPT = 2_000;
const MOST_ADDRESSES = 1_000;
/** Only over TLS: no other host and no other path can set it. */
const SECURE_NAME = "__Host-rotunda";

export class Sessions {
  /** Known when the port is. */
  origins: Origins | undefined;
  readonly #parts: SessionParts;
  readonly #localSecret: Buffer | undefined;
  /** SHA-256 of a code → when it is over. */
  readonly #codes = new Map<string, number>();
  readonly #attempts = new Map<string, { left: number; at: number }>();

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#localSecret = parts.localToken === undefined ? undefined : localSecret(parts.localToken);
  }

  /** False: everybody is local (`--auth none`). */
  get needed(): boolean {
    return this.#localSecret !== undefined;
  }

  newCode(): { code: string; expiresAt: number } {
    const code = randomBytes(32).toString("base64url");
    const expiresAt = Date.now() + CODE_LENGTH;
    for (const [known, until] of this.#codes) {
      if (until <= Date.now() || this.#codes.size >= MOST_CODES) this.#codes.delete(known);
    }
    this.#codes.set(hash("sha256", code), expiresAt);
    return { code, expiresAt };
  }

  /** Throws `unauthorized`, `rate_limited`, `origin_not_allowed`. */
  async signIn(request: IncomingMessage, given: { code?: string; token?: string }): Promise<NewSession> {
    // Of no other page, and of nobody who is no page: who has a token and no browser needs no cookie.
    this.requireOwnPage(request.headers, true);
    const bucket = this.#attemptsOf(this.#addressOf(request));
    if (bucket.left < 1) {
      throw new DoorError("rate_limited", "Too many wrong attempts to sign in.", { retryAfter: NEW_ATTEMPT / 1_000 });
    }
    // Taken before anything is looked up, so that many at one moment are not one attempt.
    bucket.left--;
    const { identity, secret } = await this.#whose(given);
    bucket.left++;
    const { token } = identity;
    const until = Math.min(Date.now() + SESSION_LENGTH, token?.expiresAt ?? Number.POSITIVE_INFINITY);
    const { cookie, csrf, session } = makeSession(token?.id ?? "local", secret, until);
    const line = this.#setCookie(request, cookie, until - Date.now());
    return { identity: { ...identity, session }, csrf, cookie: line };
  }

  /** Behind a proxy: whom it has seen last. Somebody's wrong attempts are no reason to refuse others. */
  #addressOf({ socket, headers }: IncomingMessage): string {
    const given = this.#parts.behindProxy ? headers["x-forwarded-for"] : undefined;
    const last = typeof given === "string" ? given.split(",").at(-1)?.trim() : undefined;
    return last ? last.slice(0, 64) : (socket.remoteAddress ?? "");
  }

  async #whose({ code, token }: { code?: string; token?: string }): Promise<{ identity: Identity; secret: Buffer }> {
    if (code !== undefined) {
      if (!this.#takeCode(code)) throw unauthorized("This link was used, or is older than 15 minutes.");
      return { identity: LOCAL_IDENTITY, secret: this.#ownSecret() };
    }
    const identity = await this.#parts.identify(token ?? "");
    const split = identity.token && token !== undefined ? splitToken(token) : undefined;
    return { identity, secret: split ? Buffer.from(split.secret, "hex") : this.#ownSecret() };
  }

  #ownSecret(): Buffer {
    if (!this.#localSecret) throw new Error("nobody needs to sign in here");
    return this.#localSecret;
  }

  /** The code is looked up by its hash: how long that takes tells nothing of any code. */
  #takeCode(code: string): boolean {
    const known = hash("sha256", code);
    const until = this.#codes.get(known);
    return this.#codes.delete(known) && until !== undefined && until > Date.now();
  }

  #attemptsOf(address: string): { left: number; at: number } {
    const now = performance.now();
    const bucket = this.#attempts.get(address) ?? { left: ATTEMPTS, at: now };
    bucket.left = Math.min(ATTEMPTS, bucket.left + (now - bucket.at) / NEW_ATTEMPT);
    bucket.at = now;
    this.#attempts.delete(address);
    this.#attempts.set(address, bucket);
    for (const oldest of this.#attempts.keys()) {
      if (this.#attempts.size <= MOST_ADDRESSES) break;
      this.#attempts.delete(oldest);
    }
    return bucket;
  }

  /**
   * Who is signed in; undefined where the request has no session of ours. Throws `origin_not_allowed` where it does not
   * come from our page, or without the page's half.
   */
  async identify(request: IncomingMessage): Promise<Identity | undefined> {
    const { headers } = request;
    const cookies = cookiesNamed(headers.cookie, [SECURE_NAME, this.#plainName(request)])
      .map(parseCookie)
      .filter((cookie) => cookie !== undefined);
    if (cookies.length === 0) return undefined;
    this.requireOwnPage(headers, false);
    const csrf = headers[CSRF_HEADER];
    const fitting = typeof csrf === "string" ? cookies.filter((one) => isOtherHalf(one, csrf)) : [];
    if (typeof csrf !== "string" || fitting.length === 0) throw foreign();
    for (const cookie of fitting) {
      const identity = await this.#identityOf(cookie, csrf);
      if (identity) return identity;
    }
    return undefined;
  }

  async #identityOf(cookie: ParsedCookie, csrf: string): Promise<Identity | undefined> {
    const { subject, expiresAt, name } = cookie;
    const secret = secretOf(cookie, csrf);
    if (!secret || expiresAt <= Date.now()) return undefined;
    const session = { name, expiresAt };
    let identity: Identity;
    if (subject === "local") {
      if (!this.#localSecret || !timingSafeEqual(secret, this.#localSecret)) return undefined;
      identity = { ...LOCAL_IDENTITY, session };
    } else {
      const token = await this.#parts.store.token(subject);
      const right = token && isSecret(secret.toString("hex"), token.secretHash) && isInForce(token, Date.now());
      if (!token || !right) return undefined;
      identity = { ...identityOf(token), session };
    }
    const over = await this.#parts.store.idempotency(identity.owner, signedOut(name));
    return over ? undefined : identity;
  }

  /** From now on the session opens nothing, at no node; the answer is a `set-cookie` that takes it from the browser. */
  async signOut(request: IncomingMessage, { owner, session }: Identity): Promise<string[]> {
    if (session) {
      const { name, expiresAt } = session;
      const record = { owner, key: signedOut(name), digest: name, responseId: null, expiresAt };
      await this.#parts.store.saveIdempotency({ ...record, answer: { status: 204, body: "" } });
    }
    return [
      `${this.#plainName(request)}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`,
      `${SECURE_NAME}=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0`,
    ];
  }

  /** Throws `origin_not_allowed`. `strict`: a request without `origin` is refused. */
  requireOwnPage({ origin, "sec-fetch-site": site }: IncomingHttpHeaders, strict: boolean): void {
    const own = origin !== undefined && this.origins?.allowsOrigin(origin) === true && !this.origins.isForeign(origin);
    if (origin === undefined ? strict || site !== "same-origin" : !own) throw foreign();
    if (site !== undefined && site !== "same-origin") throw foreign();
  }

  /** Two servers on one machine share a host, and so its cookies. */
  #plainName({ socket }: IncomingMessage): string {
    return `rotunda_${socket.localPort ?? 0}`;
  }

  #setCookie(request: IncomingMessage, value: string, milliseconds: number): string {
    const { origin, "x-forwarded-proto": forwarded } = request.headers;
    const secure = origin?.startsWith("https://") || (this.#parts.behindProxy && forwarded === "https");
    const name = secure ? SECURE_NAME : this.#plainName(request);
    const rest = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${Math.floor(milliseconds / 1_000)}`;
    return `${name}=${value}; ${rest}${secure ? "; Secure" : ""}`;
  }
}

function foreign(): RotundaError {
  return new RotundaError("origin_not_allowed", `This did not come from our own page, or without its ${CSRF_HEADER}.`);
}

/** No client can name it: their keys are ASCII. */
function signedOut(name: string): string {
  return `signed out · ${name}`;
}
