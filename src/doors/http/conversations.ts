/**
 * `/v1/conversations`: OpenAI's Conversations API and SpeakMCP's conversations, on the same paths.
 *
 * Invariant: a conversation is a pointer into the tree. Deleting it, or an item of it, moves or removes the pointer
 * and never what was said: items stay in their responses (OpenAI reference, "Delete a conversation").
 */
import { setImmediate } from "node:timers/promises";
import type { RecordRequest } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { Item } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import type { Conversation } from "../../types/response.ts";
import { askedOf } from "../../util/asked.ts";
import { newId } from "../../util/ids.ts";
import { oneLine } from "../../util/text.ts";
import { ownConversation, ownerFilter, ownNode } from "./access.ts";
import type { RequestContext } from "./context.ts";
import type { AddItems, BranchConversation, CreateConversation, UpdateConversation } from "./conversations-schemas.ts";
import { DoorError } from "./errors.ts";
import { message, readInput } from "./input-items.ts";
import { pageOfItems } from "./responses.ts";
import type { Handler } from "./routes.ts";
import { messagesOf, pathItems } from "./speakmcp-messages.ts";
import { wireItem } from "./wire-items.ts";

/** What both worlds know of it. */
function conversationFields(conversation: Conversation) {
  const { id, title, createdAt, updatedAt, metadata, name, head } = conversation;
  const created_at = Math.floor(createdAt / 1_000);
  return { id, object: "conversation", created_at, metadata, name, title, head, createdAt, updatedAt };
}

async function withMessages(context: RequestContext, conversation: Conversation) {
  context.about = conversation.head ?? undefined;
  const messages = messagesOf(await pathItems(context.app, conversation.head));
  return { ...conversationFields(conversation), messages };
}

async function given(context: RequestContext): Promise<Conversation> {
  return ownConversation(context, context.params.id ?? "");
}

export const listConversations: Handler = async (context) => {
  const { app, query } = context;
  const asked = Number(query.get("limit") ?? 1_000);
  const limit = Number.isInteger(asked) && asked > 0 ? Math.min(asked, 1_000) : 1_000;
  const before = query.get("after") ?? undefined;
  // A place in somebody else's list is none: it must not tell whether there is such a conversation.
  const begins = !before || (await ownConversation(context, before).catch(() => undefined))?.id === before;
  const found = begins
    ? await app.store.conversations({ ...ownerFilter(context), limit, ...(before && { before }) })
    : [];
  const conversations = [];
  for (const [index, conversation] of found.entries()) {
    // Many long conversations must not hold up everybody else.
    if (index % 10 === 9) await setImmediate();
    const { createdAt, updatedAt, id, title } = conversation;
    const { count, last } = await summaryOf(context, conversation);
    conversations.push({ id, title, createdAt, updatedAt, messageCount: count, lastMessage: last, preview: last });
  }
  const data = found.map(conversationFields);
  context.json(200, { conversations, object: "list", data, has_more: found.length === limit });
};

interface Summary {
  count: number;
  last: string;
}

/** By head: what has ended never changes. */
const summaries = new Map<string, Summary>();
const SUMMARY_LIMIT = 20_000;

async function summaryOf({ app }: RequestContext, { head }: Conversation): Promise<Summary> {
  if (head === null) return { count: 0, last: "" };
  const known = summaries.get(head);
  if (known) return known;
  const messages = messagesOf(await pathItems(app, head).catch(() => []));
  const said = messages.findLast((one) => one.content !== "")?.content ?? "";
  const summary = { count: messages.length, last: oneLine(said, 100) };
  const node = await app.store.node(head);
  if (!node || node.endedAt === null) return summary;
  if (summaries.size >= SUMMARY_LIMIT) summaries.clear();
  summaries.set(head, summary);
  return summary;
}

export const getConversation: Handler = async (context) => {
  context.json(200, await withMessages(context, await given(context)));
};

export const createConversation: Handler<CreateConversation> = async (context, body) => {
  const fromSpeakmcp = body.title !== undefined || body.messages !== undefined;
  const items = fromSpeakmcp ? speakmcpItems(body) : await kept(body.items ?? []);
  const now = Date.now();
  const conversation: Conversation = {
    id: newId("conv", now),
    owner: context.identity.owner,
    name: null,
    title: typeof body.title === "string" && body.title !== "" ? oneLine(body.title, 200) : titleOf(items),
    head: null,
    workspace: context.services.workspace,
    metadata: body.metadata ?? {},
    createdAt: now,
    updatedAt: now,
  };
  await context.app.store.saveConversation(conversation);
  if (items.length > 0) await record(context, conversation, items);
  const made = await ownConversation(context, conversation.id);
  context.json(fromSpeakmcp ? 201 : 200, await withMessages(context, made));
};

/** What is only put down answers nothing: an answer to an approval there would be read as one later. */
async function kept(given: readonly unknown[]): Promise<Item[]> {
  const items = await readInput(given, async () => undefined, "items");
  if (!items.some((item) => item.type === "mcp_approval_response")) return items;
  throw new DoorError("usage", "Answers to approvals are given to a response, not to a conversation.", {
    param: "items",
  });
}

function titleOf(items: readonly Item[]): string {
  const first = items.find((item) => item.type === "message" && item.role === "user");
  const texts = first?.type === "message" ? first.content.map((part) => ("text" in part ? part.text : "")) : [];
  return oneLine(askedOf(texts), 60);
}

/** Parity S22, with SpeakMCP's own words for what is wrong. */
function speakmcpItems({ messages }: CreateConversation): Item[] {
  if (!Array.isArray(messages) || messages.length === 0) throw plain("Missing or invalid messages array");
  return messages.flatMap((raw: unknown, index): Item[] => {
    const { role, content, toolCalls, toolResults } = (raw ?? {}) as Record<string, unknown>;
    if (role !== "user" && role !== "assistant" && role !== "tool")
      throw plain(`Invalid role in message ${index}: expected one of user, assistant, tool`);
    if (typeof content !== "string") throw plain(`Invalid content in message ${index}: expected string`);
    if (role === "user") return [message("user", [{ type: "input_text", text: content }])];
    if (role === "assistant") {
      const said: Item[] =
        content === "" ? [] : [message("assistant", [{ type: "output_text", text: content, annotations: [] }])];
      return [...said, ...callsOf(toolCalls)];
    }
    return resultsOf(content, toolResults);
  });
}

function plain(text: string): DoorError {
  return new DoorError("usage", text, { param: "messages" });
}

function callsOf(toolCalls: unknown): Item[] {
  if (!Array.isArray(toolCalls)) return [];
  return toolCalls.map((raw: unknown): Item => {
    const { name, arguments: given } = (raw ?? {}) as Record<string, unknown>;
    const called = typeof name === "string" ? name : (JSON.stringify(name) ?? "");
    const said = `[called ${called.slice(0, 200)} with ${JSON.stringify(given ?? {})}]`;
    return message("assistant", [{ type: "output_text", text: said, annotations: [] }]);
  });
}

/** Their calls are not known by an id, so results go on as what the person's side said (parity S55). */
function resultsOf(content: string, toolResults: unknown): Item[] {
  const texts = Array.isArray(toolResults)
    ? toolResults.map((raw: unknown) => {
        const said = ((raw ?? {}) as Record<string, unknown>).content ?? "";
        return typeof said === "string" ? said : JSON.stringify(said);
      })
    : [];
  const text = content === "" ? texts.join("\n") : content;
  return [message("user", [{ type: "input_text", text: `[tool result]\n${text}` }])];
}

/** Puts items behind where the conversation stands, without asking a model. */
async function record(
  context: RequestContext,
  conversation: Conversation,
  items: Item[],
  omit?: string[],
): Promise<void> {
  const request: RecordRequest = {
    input: items,
    // Where it stands is looked up when its turn has come: it may have moved by then.
    conversation: conversation.id,
    workspace: conversation.workspace,
    door: "http",
    owner: conversation.owner,
    ...(omit && { omit }),
  };
  await context.app.engine.record(request);
}

export const updateConversation: Handler<UpdateConversation> = async (context, body) => {
  const conversation = await given(context);
  const changed: Conversation = {
    ...conversation,
    ...(body.metadata !== undefined && { metadata: (body.metadata ?? {}) as JsonObject }),
    ...(body.title !== undefined && { title: oneLine(body.title, 200) }),
    updatedAt: Date.now(),
  };
  await context.app.store.saveConversation(changed);
  context.json(200, await withMessages(context, changed));
};

export const deleteConversation: Handler = async (context) => {
  const { id } = await given(context);
  await context.app.store.removeConversation(id);
  const entry = { who: context.identity.owner, door: "http", responseId: null, at: Date.now() };
  await context.app.store.audit({ action: "delete", ...entry, details: { conversation: id } });
  context.json(200, { id, object: "conversation.deleted", deleted: true, success: true });
};

/** A second pointer at the same place, or at an earlier one: nothing is copied. */
export const branchConversation: Handler<BranchConversation> = async (context, body) => {
  const conversation = await given(context);
  const from = body.response_id === undefined ? conversation.head : (await ownNode(context, body.response_id)).id;
  const now = Date.now();
  const branch: Conversation = {
    ...conversation,
    owner: context.identity.owner,
    id: newId("conv", now),
    name: null,
    title: oneLine(body.title ?? conversation.title, 200),
    head: from,
    createdAt: now,
    updatedAt: now,
  };
  await context.app.store.saveConversation(branch);
  context.json(201, await withMessages(context, branch));
};

async function itemsOf(context: RequestContext): Promise<Item[]> {
  const { head } = await given(context);
  return (await pathItems(context.app, head)).map(({ item }) => item);
}

export const listItems: Handler = async (context) => {
  context.json(200, pageOfItems(context, await itemsOf(context)));
};

export const getItem: Handler = async (context) => {
  context.json(200, wireItem(await oneItem(context)));
};

async function oneItem(context: RequestContext): Promise<Item> {
  const wanted = context.params.item ?? "";
  const found = (await itemsOf(context)).find((item) => item.id === wanted);
  if (!found) throw new RotundaError("not_found", `there is no item ${wanted} in this conversation`);
  return found;
}

export const addItems: Handler<AddItems> = async (context, body) => {
  const conversation = await given(context);
  const items = await kept(body.items);
  if (items.length === 0) throw new DoorError("usage", "None of the items can be kept.", { param: "items" });
  await record(context, conversation, items);
  const data = items.map(wireItem);
  const ends = { first_id: items[0]?.id ?? null, last_id: items.at(-1)?.id ?? null };
  context.json(200, { object: "list", data, ...ends, has_more: false });
};

export const deleteItem: Handler = async (context) => {
  const conversation = await given(context);
  const item = await oneItem(context);
  await record(context, conversation, [], [item.id]);
  context.json(200, conversationFields(await ownConversation(context, conversation.id)));
};
