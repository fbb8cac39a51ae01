/**
 * The page's session as text: half of a secret in a cookie, the other half with the page.
 *
 * A session stands for a token. The cookie holds random bytes, and the header `x-rotunda-csrf` the token's secret
 * XORed with them: each half alone is noise. The server keeps nothing: it puts the halves together and sees whether
 * the secret is the token's. So a session outlives a restart, opens every node that knows the token, and ends with it.
 * Invariant: a cookie alone opens nothing. Cookies do not know ports: any program that a browser visits on this
 * machine is sent ours, while the page's storage, which has the other half, is our own port's alone.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { PageSession } from "./identity.ts";

/** The header that holds the page's half. */
export const CSRF_HEADER = "x-rotunda-csrf";

/** Milliseconds that a session lasts: 30 days. */
export const SESSION_LENGTH = 30 * 86_400_000;

/** Bytes of a secret, and of each half. */
const LENGTH = 32;

const FORM = /^([a-z0-9]{5,12})\.([0-9a-z]{7,9})\.([\w-]{43})\.([\w-]{43})\.([\w-]{43})$/;

/** A cookie that has its form. Whether it is good shows with the other half. */
export interface ParsedCookie extends PageSession {
  /** "local", or the id of a token. */
  subject: string;
  half: Buffer;
  /** SHA-256 of the page's half. */
  other: Buffer;
  mac: Buffer;
}

/** A new session of a subject whose secret (32 bytes) this is. */
export function makeSession(
  subject: string,
  secret: Buffer,
  expiresAt: number,
): { cookie: string; csrf: string; session: PageSession } {
  const half = randomBytes(LENGTH);
  const other = Buffer.from(secret.map((byte, at) => byte ^ (half[at] ?? 0)));
  const parts = [subject, expiresAt.toString(36), half.toString("base64url"), digest(other).toString("base64url")];
  const mac = macOf(secret, parts.join(".")).toString("base64url");
  const session = { name: nameOf(parts[2] ?? ""), expiresAt };
  return { cookie: [...parts, mac].join("."), csrf: other.toString("base64url"), session };
}

export function parseCookie(text: string): ParsedCookie | undefined {
  const [, subject, expires, half, other, mac] = FORM.exec(text) ?? [];
  if (!subject || !expires || !half || !other || !mac) return undefined;
  return {
    subject,
    expiresAt: Number.parseInt(expires, 36),
    name: nameOf(half),
    half: Buffer.from(half, "base64url"),
    other: Buffer.from(other, "base64url"),
    mac: Buffer.from(mac, "base64url"),
  };
}

/** Whether what the page has sent is the other half of this cookie. */
export function isOtherHalf({ other }: ParsedCookie, csrf: string): boolean {
  return timingSafeEqual(digest(Buffer.from(csrf, "base64url")), other);
}

/** The secret that both halves give; undefined where the cookie was altered. Whose secret it is, is not known yet. */
export function secretOf(cookie: ParsedCookie, csrf: string): Buffer | undefined {
  const other = Buffer.from(csrf, "base64url");
  if (other.length !== LENGTH) return undefined;
  const secret = Buffer.from(cookie.half.map((byte, at) => byte ^ (other[at] ?? 0)));
  const { subject, expiresAt, half, other: digested, mac } = cookie;
  const parts = [subject, expiresAt.toString(36), half.toString("base64url"), digested.toString("base64url")];
  return timingSafeEqual(macOf(secret, parts.join(".")), mac) ? secret : undefined;
}

/** What stands for the local token in a session: it follows from the token, and the token not from it. */
export function localSecret(localToken: string): Buffer {
  return createHmac("sha256", localToken).update("rotunda page").digest();
}

/** A cookie's half, as text. */
function nameOf(half: string): string {
  return hash("sha256", half);
}

function digest(bytes: Buffer): Buffer {
  return Buffer.from(hash("sha256", bytes), "hex");
}

function macOf(secret: Buffer, text: string): Buffer {
  return createHmac("sha256", secret).update(`rotunda session\n${text}`).digest();
}

/** Those values of a header `cookie` that one of the names has, at most eight: another port may have set some of them. */
export function cookiesNamed(header: string | undefined, names: readonly string[]): string[] {
  if (header === undefined) return [];
  const found: string[] = [];
  for (const pair of header.split(";", 64)) {
    const at = pair.indexOf("=");
    if (at !== -1 && names.includes(pair.slice(0, at).trim())) found.push(pair.slice(at + 1).trim());
  }
  return found.slice(0, 8);
}
