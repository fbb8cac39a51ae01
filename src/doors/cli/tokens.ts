/**
 * Commands about tokens: token, token add, token list, token revoke.
 *
 * Invariant: the text of a named token is printed once, when it is made; no hash and no secret is printed ever again.
 */
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { Json } from "../../types/json.ts";
import { type Scope, scopes, type Token, type TokenLimits } from "../../types/token.ts";
import { durationOf } from "../../util/duration.ts";
import { ensureLocalToken } from "../../util/local-token.ts";
import { matchesName, visible } from "../../util/text.ts";
import { newToken } from "../../util/token.ts";
import type { CommandContext } from "./context.ts";

export interface TokenAddFlags extends Partial<TokenLimits> {
  scopes?: string;
  profiles?: string;
  expires?: string;
  events: Token["events"];
  json?: boolean;
}

/** The local token and nothing else, so that it can stand in `$(…)`. */
export async function tokenShow(context: CommandContext): Promise<number> {
  const { stateDirectory } = await context.setUp();
  context.streams.out(`${ensureLocalToken(stateDirectory)}\n`);
  return 0;
}

export async function tokenAdd(context: CommandContext, name: string, flags: TokenAddFlags): Promise<number> {
  checkName(name);
  const now = Date.now();
  const wish: Parameters<typeof newToken>[0] = { name, events: flags.events, limits: limitsOf(flags) };
  if (flags.scopes !== undefined) wish.scopes = scopesOf(flags.scopes);
  if (flags.profiles !== undefined) wish.profiles = listOf(flags.profiles, "--profiles");
  if (flags.expires !== undefined) wish.expiresAt = now + expiryOf(flags.expires);
  const app = await context.app();
  const { token, text } = newToken(wish, now);
  await app.store.saveToken(token);
  const { id, secretHash: _hash, revokedAt: _revoked, createdAt: _created, ...details } = token;
  await note(app, { what: "add", token: id, ...(details as unknown as Record<string, Json>) });
  const { out, err } = context.streams;
  if (flags.json) out(`${JSON.stringify({ token: text, ...shown(token, now) })}\n`);
  else out(`${text}\n`);
  err(`This is the only time that the token ${visible(JSON.stringify(name))} is shown.\n`);
  for (const glob of token.profiles ?? []) {
    if (!app.profiles().some((profile) => matchesName(glob, profile.name)))
      err(`No profile is named like ${visible(glob)} here: for it the token opens nothing yet.\n`);
  }
  return 0;
}

export async function tokenList(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const now = Date.now();
  const list = (await app.store.tokens()).map((token) => shown(token, now));
  const { out, err, outStyle } = context.streams;
  if (flags.json) {
    out(`${JSON.stringify(list)}\n`);
    return 0;
  }
  if (list.length === 0) err("No token was made yet: rotunda token add NAME\n");
  for (const token of list) {
    const limits = Object.entries(token.limits).map(([limit, value]) => `${limit} ${value}`);
    const parts = [
      `${outStyle.bold(visible(token.name))}  ${token.id}  ${token.state}`,
      token.scopes.join(","),
      ...(token.profiles ? [`profiles ${visible(token.profiles.join(","))}`] : []),
      ...(token.events === "openai" ? [] : [`events ${token.events}`]),
      ...limits,
      ...(token.expiresAt === null ? [] : [`expires ${new Date(token.expiresAt).toISOString()}`]),
    ];
    out(`${parts.join("  ")}\n`);
  }
  return 0;
}

export async function tokenRevoke(context: CommandContext, nameOrId: string): Promise<number> {
  const app = await context.app();
  const now = Date.now();
  const all = await app.store.tokens();
  // A name may have belonged to others before: the one in force is meant, else the last one.
  const named = all.filter((token) => token.name === nameOrId);
  const found =
    all.find((token) => token.id === nameOrId) ??
    named.find((token) => stateOf(token, now) === "in force") ??
    named.at(-1);
  if (!found) {
    throw new RotundaError("not_found", `there is no token ${JSON.stringify(nameOrId)}`, {
      remedy: "rotunda token list shows them.",
    });
  }
  const { err } = context.streams;
  if (found.revokedAt !== null) {
    err(`${visible(found.name)} (${found.id}) was revoked before.\n`);
    return 0;
  }
  await app.store.saveToken({ ...found, revokedAt: now });
  await note(app, { what: "revoke", token: found.id, name: found.name });
  err(`Revoked: ${visible(found.name)} (${found.id}).\n`);
  return 0;
}

async function note(app: App, details: Record<string, Json>): Promise<void> {
  await app.store.audit({ action: "token", who: "cli", door: "cli", responseId: null, at: Date.now(), details });
}

function stateOf({ revokedAt, expiresAt }: Token, now: number): "in force" | "revoked" | "expired" {
  if (revokedAt !== null) return "revoked";
  return expiresAt !== null && expiresAt <= now ? "expired" : "in force";
}

/** What may be seen of a token. */
function shown({ secretHash: _, ...token }: Token, now: number) {
  return { ...token, state: stateOf({ ...token, secretHash: "" }, now) };
}

function checkName(name: string): void {
  if (name.trim() !== "" && name.length <= 100 && visible(name) === name && !/[\n\t]/.test(name)) return;
  throw new RotundaError("usage", "a token's name is 1 to 100 visible characters");
}

function listOf(text: string, flag: string): string[] {
  const list = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  if (list.length === 0) throw new RotundaError("usage", `${flag} names nothing`);
  return [...new Set(list)];
}

function scopesOf(text: string): Scope[] {
  const list = listOf(text, "--scopes");
  const unknown = list.filter((name) => !scopes.some((scope) => scope === name));
  if (unknown.length > 0) {
    throw new RotundaError("usage", `there is no scope ${unknown.map((name) => JSON.stringify(name)).join(", ")}`, {
      remedy: `Scopes: ${scopes.join(", ")}`,
    });
  }
  return scopes.filter((scope) => list.includes(scope));
}

function expiryOf(text: string): number {
  const milliseconds = durationOf(text);
  if (milliseconds !== undefined) return milliseconds;
  throw new RotundaError("usage", `${JSON.stringify(text)} is no length of time`, {
    remedy: "Write a number and m, h, d, w or y: --expires 30d",
  });
}

function limitsOf(flags: TokenAddFlags): Partial<TokenLimits> {
  const { requestsPerSecond, concurrentRuns, streams, tokensPerDay, costPerDay } = flags;
  const limits = { requestsPerSecond, concurrentRuns, streams, tokensPerDay, costPerDay };
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined));
}
