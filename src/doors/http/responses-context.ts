/** `/v1/responses/input_tokens` and `/compact`: how large a context is, and making it small. */
import type { RunRequest } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { CompactionItem, Item } from "../../types/item.ts";
import { ownConversation, ownNode, ownPrevious } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { readInput } from "./input-items.ts";
import { chooseModel } from "./model-choice.ts";
import { usageObject } from "./responses-object.ts";
import type { CompactResponse, CountTokens } from "./responses-schemas.ts";
import { wrong } from "./responses-tools.ts";
import type { Handler } from "./routes.ts";
import { wireItem } from "./wire-items.ts";

/** Characters of JSON that make a token: no endpoint tells its tokenizer, so this is an estimate. */
const CHARACTERS_PER_TOKEN = 4;

/** What an image counts for, however many bytes it has: endpoints scale it down. */
const IMAGE = " ".repeat(4_000);

export const countTokens: Handler<CountTokens> = async (context, body) => {
  const { profile } = await chooseModel(context, body.model);
  const head = await headOf(context, body);
  const counted = body.input ? undefined : await countedLast(context, head);
  if (counted !== undefined) return context.json(200, { object: "response.input_tokens", input_tokens: counted });
  const above = await shownAbove(context, head);
  const items = [...above, ...(await readInput(body.input ?? [], async () => undefined))];
  const served = (await context.app.engine.tools(profile.name)).map(({ name, description, input }) => ({
    name,
    description,
    input,
  }));
  const all = [body.instructions ?? profile.instructions, items, body.tools ?? [], served];
  const said = JSON.stringify(all, (key, value: unknown) => (key === "image_url" ? IMAGE : value));
  const input_tokens = Math.ceil(said.length / CHARACTERS_PER_TOKEN);
  context.json(200, { object: "response.input_tokens", input_tokens });
};

/** What the endpoint itself has counted for the last answer of a path, and for what it was asked: it beats every guess. */
async function countedLast(context: RequestContext, id: string | null | undefined): Promise<number | undefined> {
  if (!id) return undefined;
  const { entries = [] } = (await context.app.store.get((await ownNode(context, id)).id)) ?? {};
  const last = entries.at(-1);
  const counts = last?.side === "output" && !last.meta.agent && !last.meta.compaction;
  const usage = counts ? last.meta.usage : undefined;
  return usage && usage.input_tokens + usage.output_tokens;
}

/** The response that the input would go on from. */
async function headOf(context: RequestContext, body: CountTokens): Promise<string | null | undefined> {
  const { previous_response_id: id, conversation } = body;
  if (id && conversation) throw wrong("previous_response_id", "Give previous_response_id or conversation, not both.");
  if (!conversation) return id && (await ownPrevious(context, id)).id;
  return (await ownConversation(context, typeof conversation === "string" ? conversation : conversation.id)).head;
}

async function itemsAbove(context: RequestContext, id: string | null | undefined): Promise<Item[]> {
  if (!id) return [];
  const node = await ownNode(context, id);
  return (await context.app.store.path(node.id)).flatMap(({ entries }) => entries.map(({ item }) => item));
}

/** As a model is told of it: without what a summary stands for. */
async function shownAbove(context: RequestContext, id: string | null | undefined): Promise<Item[]> {
  const items = await itemsAbove(context, id);
  const last = items.findLast(
    (item): item is CompactionItem => item.type === "compaction" && item.covers !== undefined,
  );
  const from = items.findIndex((item) => item.id === last?.covers?.from);
  const to = items.findIndex((item) => item.id === last?.covers?.to);
  const made = (item: Item) => item.type === "compaction" && item.covers !== undefined && item !== last;
  return items.filter((item, index) => !made(item) && (index < from || index > to || to < from));
}

/**
 * The path and the input become a response of their own, whose output is the summary: a client may go on from it with
 * `previous_response_id`, or send the items back as the beginning of its next input.
 */
export const compactResponse: Handler<CompactResponse> = async (context, body) => {
  const { app, identity } = context;
  const { profile, model } = await chooseModel(context, body.model);
  const given = await readInput(body.input ?? [], async () => undefined);
  if (given.some((item) => item.type === "mcp_approval_response")) {
    if (!identity.scopes.includes("approve"))
      throw new RotundaError("insufficient_scope", "this token may not answer approvals");
    throw new DoorError("usage", "A summary answers no approval: send it to /v1/responses.", { param: "input" });
  }
  const id = body.previous_response_id;
  const above = await itemsAbove(context, id && (await ownPrevious(context, id)).id);
  if (above.length + given.length === 0) throw wrong("input", "There is nothing to sum up.");
  const request: RunRequest = {
    input: given,
    ...(body.previous_response_id && { previousResponseId: body.previous_response_id }),
    conversation: null,
    profile: profile.name,
    ...(model !== undefined && { model }),
    settings: { foreground: true, compact: body.instructions ? { focus: body.instructions } : {} },
    workspace: context.services.workspace,
    door: "http",
    owner: identity.owner,
  };
  const release = await context.acquireRun();
  try {
    const { id } = await app.engine.start(request);
    const node = await app.engine.wait(id);
    const response = await app.engine.get(id);
    if (node.status !== "completed") {
      throw new RotundaError(node.error?.code ?? "upstream_failed", node.error?.message ?? "the summary was cut off");
    }
    const users = [...above, ...given].filter((item) => item.type === "message" && item.role === "user");
    const made = response.output.filter((item) => item.type === "compaction");
    context.json(200, {
      id: response.id,
      object: "response.compaction",
      created_at: Math.floor(response.createdAt / 1_000),
      output: [...users, ...made].map(wireItem),
      usage: usageObject(response.usage),
    });
  } finally {
    release();
  }
};
