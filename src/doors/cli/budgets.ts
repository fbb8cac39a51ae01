/**
 * `rotunda budget`: what may be used over many responses.
 *
 * Invariant: a budget is set in the database, so it holds for every process that shares it from its next call on.
 */
import type { App } from "../../types/app.ts";
import { type Budget, type BudgetLimits, type BudgetPeriod, budgetKey } from "../../types/budget.ts";
import { RotundaError } from "../../types/error.ts";
import type { Token } from "../../types/token.ts";
import { periodOf } from "../../util/configured-budget.ts";
import { shortId } from "../../util/ids.ts";
import { rootOf } from "../../util/outermost.ts";
import { readServerFile } from "../../util/server-file.ts";
import { counted, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { responseNamed } from "./named.ts";

export interface BudgetFlags extends BudgetLimits {
  per?: BudgetPeriod;
  json?: boolean;
}

export async function budgetList(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const all = await app.store.budgets(Date.now());
  const { out, err } = context.streams;
  if (flags.json) out(`${JSON.stringify(all)}\n`);
  else if (all.length === 0)
    err("No budget is in use. Set one: rotunda budget set profile/general --cost 5 --per day\n");
  else {
    const tokens = all.some(({ key }) => key.startsWith("token/")) ? await app.store.tokens() : [];
    for (const budget of all) out(`${lineOf(budget, tokens)}\n`);
  }
  return 0;
}

/** The id of a token tells nobody whose it is. */
function nameOf(key: string, tokens: readonly Token[]): string {
  const token = tokens.find(({ id }) => key === `token/${id}`);
  return token ? `${key} ${token.name}${token.revokedAt === null ? "" : " (revoked)"}` : key;
}

function lineOf({ key, limits, spent, period, set }: Budget, tokens: readonly Token[]): string {
  const parts: string[] = [];
  if (limits.cost !== undefined) parts.push(`$${Number(spent.cost.toPrecision(4))} of $${limits.cost}`);
  if (limits.tokens !== undefined) parts.push(`${spent.tokens} of ${limits.tokens} tokens`);
  if (limits.seconds !== undefined) parts.push(`${Math.round(spent.seconds)} of ${limits.seconds} s`);
  if (limits.agents !== undefined) parts.push(`${spent.agents} of ${limits.agents} sub-agents`);
  const per = period === "total" ? "" : ` per ${period}`;
  return `${visible(nameOf(key, tokens))}  ${parts.join(", ") || "no limit"}${per}${set ? "" : "  (configuration)"}`;
}

export async function budgetSet(context: CommandContext, key: string, flags: BudgetFlags): Promise<number> {
  const { json, cost, tokens, seconds, agents } = flags;
  const limits = {
    ...(cost !== undefined && { cost }),
    ...(tokens !== undefined && { tokens }),
    ...(seconds !== undefined && { seconds }),
    ...(agents !== undefined && { agents }),
  };
  if (Object.keys(limits).length === 0) {
    throw new RotundaError("usage", "say how much: --cost, --tokens, --seconds or --agents");
  }
  const app = await context.app();
  const full = await fullKey(app, key);
  const at = Date.now();
  const per = flags.per ?? (await periodOf(app, full, at)) ?? "total";
  await app.store.saveBudget(full, limits, per, at);
  const details = { budget: full, per, ...limits };
  await app.store.audit({ action: "settings", who: "local", door: "cli", responseId: null, at, details });
  if (json) context.streams.out(`${JSON.stringify({ key: full, per, limits })}\n`);
  else
    context.streams.err(`Set: ${visible(full)}  ${limitsText(limits)} ${per === "total" ? "in all" : `per ${per}`}\n`);
  await warnIfUnknown(context, app, full);
  await tellWaiting(context, app, full);
  return 0;
}

function limitsText({ cost, tokens, seconds, agents }: BudgetLimits): string {
  const parts = [
    ...(cost === undefined ? [] : [`$${cost}`]),
    ...(tokens === undefined ? [] : [counted(tokens, "token")]),
    ...(seconds === undefined ? [] : [`${seconds} s`]),
    ...(agents === undefined ? [] : [counted(agents, "sub-agent")]),
  ];
  return parts.join(", ");
}

/** It may be there tomorrow; mostly it is a typing mistake. */
async function warnIfUnknown(context: CommandContext, app: App, key: string): Promise<void> {
  const [kind = "", name = ""] = partsOf(key);
  const known: Record<string, () => Promise<string[]>> = {
    profile: async () => (await app.profiles()).map((profile) => profile.name),
    model: async () => (await app.models()).map((model) => model.id),
    token: async () => ["local", ...(await app.store.tokens()).map(({ id }) => id)],
  };
  const names = await known[kind]?.();
  if (names && !names.includes(name))
    context.say("warn", `there is no ${kind} ${name} now: nothing counts for this budget`);
}

export async function budgetRemove(context: CommandContext, key: string): Promise<number> {
  const app = await context.app();
  const full = await fullKey(app, key);
  if (!(await app.store.removeBudget(full))) throw new RotundaError("not_found", `there is no budget for ${full}`);
  context.streams.err(`Removed: ${visible(full)}\n`);
  await tellWaiting(context, app, full);
  return 0;
}

/** Names of tokens and parts of ids as people write them. */
async function fullKey(app: App, key: string): Promise<string> {
  if (!budgetKey.test(key)) {
    const remedy = "For example: all, profile/general, token/phone, model/main, response/1a2b3c4d, tree/1a2b3c4d";
    throw new RotundaError("usage", `"${key.slice(0, 60)}" names nothing that a budget can be for`, { remedy });
  }
  const [kind, name] = partsOf(key);
  if (kind === "response" || kind === "tree") {
    const id = await responseNamed(app, name);
    return `${kind}/${kind === "tree" ? await rootOf(app, id) : id}`;
  }
  if (kind === "token" && name !== "local") {
    const tokens = await app.store.tokens();
    const named = tokens.filter((one) => one.name === name);
    // A name may have belonged to others before.
    const meant = named.find((one) => one.revokedAt === null) ?? named.at(-1);
    return `token/${tokens.find((one) => one.id === name)?.id ?? meant?.id ?? name}`;
  }
  return key;
}

/** "profile/general" → its kind and its name. */
function partsOf(key: string): [kind: string, name: string] {
  const at = key.indexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
}

async function tellWaiting({ streams }: CommandContext, app: App, key: string): Promise<void> {
  const waiting = await app.store.list({ status: ["waiting"], limit: 1_000 });
  const of = waiting.filter((node) => !node.caller && node.error?.budget === key);
  if (of.length === 0) return;
  if (readServerFile(app.stateDirectory)) {
    const those = of.length === 1 ? "One response that waits for it goes" : `${of.length} that wait for it go`;
    streams.err(`${those} on in the server.\n`);
  } else for (const { id } of of) streams.err(`It waits for this: rotunda resume ${shortId(id)}\n`);
}
