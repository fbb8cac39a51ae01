/**
 * Trees, searches and usage over HTTP.
 *
 * Invariant: whose they are is said to the store; a request is answered within some seconds, however much there is.
 */
import type { TreeNode, UsageSum } from "../../types/browsing.ts";
import { RotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import { ownConversation, ownerFilter, ownNode } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import type { Handler } from "./routes.ts";

/** Milliseconds that a search, or a sum, may take. */
const PATIENCE = 2_000;
const DAY = 86_400_000;
const MOST_WORDS = 8;
const LONGEST_WORD = 200;

function wholeNumber({ query }: RequestContext, name: string, usual: number, most: number): number {
  const text = query.get(name) ?? String(usual);
  const value = Number(text);
  if (!/^\d{1,6}$/.test(text) || value < 1 || value > most) {
    throw new DoorError("usage", `${name} is a whole number from 1 to ${most}.`, { param: name });
  }
  return value;
}

// ---- the tree

export const readTree: Handler = async (context) => {
  const { app } = context;
  const limit = wholeNumber(context, "limit", 500, 2_000);
  const current = await currentOf(context);
  if (current === null) {
    return context.json(200, { object: "tree", root: null, current, truncated: false, nodes: [] });
  }
  await ownNode(context, current);
  const view = await (await app.store.browsing()).tree(current, { limit, ...ownerFilter(context) });
  if (!view) throw new RotundaError("not_found", `there is no response ${current}`);
  const costs = treeCosts(view.nodes);
  const nodes = view.nodes.map((node) => wireNode(node, costs.get(node.node.id)));
  context.json(200, { object: "tree", root: view.root, current, truncated: view.truncated, nodes });
};

async function currentOf(context: RequestContext): Promise<string | null> {
  const { query } = context;
  const [response, conversation] = [query.get("response"), query.get("conversation")];
  if ((response === null) === (conversation === null)) {
    throw new DoorError("usage", "Either response or conversation says which tree.", { param: "response" });
  }
  return conversation === null ? response : (await ownConversation(context, conversation)).head;
}

function wireNode({ node, prompt, answer }: TreeNode, cost: number | undefined) {
  const { input_tokens, output_tokens, total_tokens } = node.usage;
  const { caller, error, endedAt } = node;
  return {
    id: node.id,
    previous_response_id: node.previousResponseId,
    caller: caller && { response_id: caller.responseId, item_id: caller.itemId },
    conversation_id: node.conversationId,
    kind: node.settings.compact === undefined ? "answer" : "compaction",
    status: node.status,
    model: node.model,
    profile: node.profile,
    door: node.door,
    workspace: node.workspace,
    created_at: node.createdAt / 1_000,
    ended_at: endedAt === null ? null : endedAt / 1_000,
    waits_for: node.status !== "waiting" ? null : error?.code === "budget_reached" ? "budget" : "approval",
    error: error && { code: error.code, message: error.message },
    usage: { input_tokens, output_tokens, total_tokens },
    cost: node.usage.cost ?? null,
    ...(cost !== undefined && { tree_cost: cost }),
    prompt,
    answer,
  };
}

/** What responses with sub-agents have cost together with these. */
function treeCosts(nodes: readonly TreeNode[]): Map<string, number> {
  const byId = new Map(nodes.map(({ node }) => [node.id, node]));
  const callers = new Map<string, string | undefined>();
  // A sub-agent that was asked again goes on from its own last answer, and is still its caller's. Parents come first.
  const callerOf = ({ id, caller, depth, previousResponseId }: ResponseNode): string | undefined => {
    const known = caller?.responseId ?? (depth > 0 ? callers.get(previousResponseId ?? "") : undefined);
    callers.set(id, known);
    return known;
  };
  const costs = new Map<string, number>();
  for (const { node } of nodes) {
    const cost = node.usage.cost ?? 0;
    const seen = new Set([node.id]);
    for (let above = callerOf(node); above !== undefined && !seen.has(above); above = callers.get(above)) {
      seen.add(above);
      costs.set(above, (costs.get(above) ?? byId.get(above)?.usage.cost ?? 0) + cost);
    }
  }
  return costs;
}

// ---- everything said

export const search: Handler = async (context) => {
  const { query, app } = context;
  const words = (query.get("q") ?? "")
    .trim()
    .split(/\s+/, MOST_WORDS + 1)
    .filter((word) => word !== "");
  if (words.length === 0) throw new DoorError("usage", "q has the words to search for.", { param: "q" });
  if (words.length > MOST_WORDS || words.some((word) => word.length > LONGEST_WORD)) {
    const text = `q may have ${MOST_WORDS} words of ${LONGEST_WORD} characters.`;
    throw new DoorError("usage", text, { param: "q" });
  }
  const before = query.get("before") ?? undefined;
  const { found, next } = await (await app.store.browsing()).search({
    words,
    all: query.get("all") === "true",
    limit: wholeNumber(context, "limit", 20, 100),
    milliseconds: PATIENCE,
    ...(before !== undefined && { before }),
    ...ownerFilter(context),
  });
  const data = found.map(({ responseId, conversationId, itemId, role, excerpt, createdAt }) => {
    const ids = { response_id: responseId, conversation_id: conversationId, item_id: itemId };
    return { ...ids, role, excerpt, created_at: createdAt / 1_000 };
  });
  context.json(200, { object: "list", data, next });
};

// ---- what was used

const KINDS = ["day", "model", "profile"] as const;

type Kind = (typeof KINDS)[number];

export const readUsage: Handler = async (context) => {
  const { query, app } = context;
  const days = wholeNumber(context, "days", 30, 400);
  const given = query.getAll("by").flatMap((text) => text.split(","));
  const by = given.length === 0 ? KINDS : KINDS.filter((kind) => given.includes(kind));
  if (given.some((kind) => !KINDS.includes(kind as Kind))) {
    throw new DoorError("usage", "by can be day, model and profile.", { param: "by" });
  }
  const now = Date.now();
  const from = (Math.floor(now / DAY) - days + 1) * DAY;
  const range = { from, to: now + DAY, milliseconds: PATIENCE, ...ownerFilter(context) };
  const { sums, truncated } = await (await app.store.browsing()).usage(range);
  context.json(200, { object: "usage", from: from / 1_000, to: now / 1_000, truncated, rows: rowsBy(by, sums) });
};

/** The days in their order, of each the most expensive first. */
function rowsBy(by: readonly Kind[], sums: readonly UsageSum[]) {
  const rows = new Map<string, Partial<Record<Kind, string>> & ReturnType<typeof emptyRow>>();
  for (const sum of sums) {
    const names = Object.fromEntries(by.map((kind) => [kind, sum[kind]]));
    const key = JSON.stringify(names);
    const row = rows.get(key) ?? { ...names, ...emptyRow() };
    row.responses += sum.responses;
    row.input_tokens += sum.inputTokens;
    row.output_tokens += sum.outputTokens;
    row.cost += sum.cost;
    rows.set(key, row);
  }
  const order = (a: { day?: string }, b: { day?: string }) => (a.day ?? "").localeCompare(b.day ?? "");
  return [...rows.values()].sort((a, b) => order(a, b) || b.cost - a.cost || b.input_tokens - a.input_tokens);
}

function emptyRow() {
  return { responses: 0, input_tokens: 0, output_tokens: 0, cost: 0 };
}
