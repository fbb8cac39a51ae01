/**
 * Ids: `kind_` and 26 characters of Crockford's base 32 in lower case.
 *
 * Invariant: ids of one process sort by the time of their making; the last 14 characters (70 bits) are
 * random, so that an id can be named by its ending.
 */
import { randomFillSync } from "node:crypto";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const RANDOM_LENGTH = 14;

export type IdPrefix =
  | "resp"
  | "conv"
  | "msg"
  | "rs"
  | "mcp"
  | "fc"
  | "fco"
  | "mcpr"
  | "mcpa"
  | "cmp"
  | "rule"
  | "req"
  | "eli"
  | "chat"
  | "evt"
  | "sched";

const pool = Buffer.alloc(RANDOM_LENGTH * 128);
let used = pool.length;
let lastTime = 0;
let counter = 0;
let encodedTime = "";

/** A new id. Sorts after every id that this process made before. */
export function newId(prefix: IdPrefix, now: number = Date.now()): string {
  if (now > lastTime) {
    lastTime = now;
    counter = 0;
    encodedTime = encode(now, 10);
  } else if (++counter >= 1024) {
    lastTime++;
    counter = 0;
    encodedTime = encode(lastTime, 10);
  }
  if (used >= pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  let random = "";
  for (let i = 0; i < RANDOM_LENGTH; i++) random += ALPHABET[(pool[used + i] ?? 0) & 31];
  used += RANDOM_LENGTH;
  return `${prefix}_${encodedTime}${encode(counter, 2)}${random}`;
}

function encode(value: number, length: number): string {
  let text = "";
  let rest = value;
  for (let i = 0; i < length; i++) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

const ID = /^[a-z]{2,5}_[0-9a-hjkmnp-tv-z]{26}$/;
const PART = /^(?:[a-z]{2,5}_)?[0-9a-hjkmnp-tv-z]{0,26}$/;

/** A whole id of ours; anything else is never looked up. */
export function isId(text: string): boolean {
  return ID.test(text);
}

/** A beginning or an ending that may be looked up: at least four characters of the id's own part. */
export function isIdPart(text: string): boolean {
  return PART.test(text) && text.replace(/^[a-z]{2,5}_/, "").length >= 4;
}

/** The ending that listings show. */
export function shortId(id: string): string {
  return id.slice(-8);
}

/** When an id of ours was made, in milliseconds since the epoch. */
export function timeOfId(id: string): number {
  let time = 0;
  for (const character of id.slice(id.indexOf("_") + 1).slice(0, 10)) time = time * 32 + ALPHABET.indexOf(character);
  return time;
}
