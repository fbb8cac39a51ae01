/**
 * Tokens as text: made, taken apart, compared.
 *
 * Invariant: a secret is compared by its SHA-256 and in constant time; no function here stores or logs one.
 */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { DEFAULT_SCOPES, type Token } from "../types/token.ts";

const FORM = /^rtd_([0-9a-z]{12})_([0-9a-f]{64})$/;

/** A new token, and the text that is shown once and never stored. */
export function newToken(wish: Pick<Token, "name"> & Partial<Token>, now: number): { token: Token; text: string } {
  const id = [...randomBytes(12)].map((byte) => (byte % 36).toString(36)).join("");
  const secret = randomBytes(32).toString("hex");
  const token: Token = {
    scopes: [...DEFAULT_SCOPES],
    profiles: null,
    limits: {},
    events: "openai",
    expiresAt: null,
    revokedAt: null,
    ...wish,
    id,
    secretHash: hash("sha256", secret),
    createdAt: now,
  };
  return { token, text: `rtd_${id}_${secret}` };
}

/** Id and secret of a named token's text; undefined where it has another form. */
export function splitToken(text: string): { id: string; secret: string } | undefined {
  const [, id, secret] = FORM.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** Whether a secret is the one whose SHA-256 (hexadecimal) this is. */
export function isSecret(secret: string, secretHash: string): boolean {
  const given = Buffer.from(hash("sha256", secret), "hex");
  const known = Buffer.from(secretHash, "hex");
  return given.length === known.length && timingSafeEqual(given, known);
}
