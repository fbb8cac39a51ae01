/**
 * From the body of `POST /v1/chat/completions` to a request to the engine.
 *
 * Invariant: with a conversation only what follows the last answer is new; without one the request is a root of
 * its own, and no conversation is listed for it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Approver, RunRequest } from "../../types/engine.ts";
import { toRotundaError } from "../../types/error.ts";
import type { Item } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import type { ClientTool, Conversation, RunSettings } from "../../types/response.ts";
import { newId } from "../../util/ids.ts";
import { parked } from "../../util/parked.ts";
import { oneLine } from "../../util/text.ts";
import { ownConversation } from "./access.ts";
import { newMessages, readMessages } from "./chat-messages.ts";
import type { CreateCompletion } from "./chat-schemas.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { chooseModel } from "./model-choice.ts";
import { formatOf, NO_LOGPROBS, servedTools } from "./responses-request.ts";
import { applyToolChoice, checkNames, clientTool, objectsOf, wrong } from "./responses-tools.ts";

/** Milliseconds in which another door may answer an approval before the call is denied. */
const PATIENCE = 10_000;

const denyAfterPatience: Approver = async (_approval, signal) => {
  await sleep(PATIENCE, undefined, { signal, ref: false });
  return { decision: "deny", reason: "nobody answered within 10 seconds", by: "timeout" };
};

/** A name that a client may give a conversation of its own. */
const NAME = /^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/;

export interface ChatRequest {
  request: RunRequest;
  /** What the client calls the conversation. */
  conversationName: string | undefined;
}

/** `keep`: a request without a conversation begins one (SpeakMCP). */
export async function chatRequest(
  context: RequestContext,
  body: CreateCompletion,
  keep: boolean,
): Promise<ChatRequest> {
  check(body);
  const { profile, model, agent } = await chooseModel(context, body.model);
  const given = messagesOf(body);
  const settings = settingsOf(body);
  const choice = toolChoiceOf(body);
  applyToolChoice(settings, choice, await servedTools(context, choice, profile.name));
  if (!agent) settings.plain = true;
  // What is refused begins no conversation.
  if (body.conversation_id) readMessages(given);
  const place = await placeOf(context, body.conversation_id ?? undefined, titleOf(given), keep);
  const fresh = readMessages(place.head === null ? given : newMessages(given));
  if (fresh.length === 0) throw missing();
  const input = agent ? fresh : withInstructions(fresh, settings);
  if (!agent && place.head !== null) await keepInstructions(context, place.head, given, settings);
  const way = profile.onApproval ?? "auto";
  if (way === "deny" || way === "return") settings.onApproval = way;
  return {
    conversationName: place.name,
    request: {
      input,
      ...place.where,
      profile: profile.name,
      ...(model !== undefined && { model }),
      settings,
      workspace: context.services.workspace,
      door: "http",
      owner: context.identity.owner,
      ...(context.idempotency && { idempotency: context.idempotency }),
      ...(way === "auto" && { approver: denyAfterPatience }),
      ...(way === "wait" && { approver: parked }),
    },
  };
}

/** What would change the answer and cannot be done is refused; what is a hint only may be passed over. */
function check(body: CreateCompletion): void {
  if ((body.n ?? 1) !== 1) throw wrong("n", "Only one choice is made for each request.");
  if (body.logprobs) throw wrong("logprobs", NO_LOGPROBS);
  if (body.top_logprobs) throw wrong("top_logprobs", NO_LOGPROBS);
  if (body.modalities?.some((one) => one !== "text")) throw wrong("modalities", "Answers are text here.");
  if (Object.keys(body.logit_bias ?? {}).length > 0) throw wrong("logit_bias", "Tokens cannot be weighted here.");
  if (body.moderation) throw wrong("moderation", "Nothing is moderated here: leave it out.");
  if (Object.keys(body.metadata ?? {}).length > 16) throw wrong("metadata", "metadata has more than 16 pairs.");
}

function missing(): DoorError {
  return new DoorError("usage", "Missing user prompt", { param: "messages", wireCode: "missing_required_parameter" });
}

function messagesOf(body: CreateCompletion): readonly Record<string, unknown>[] {
  if (body.messages && body.messages.length > 0) return body.messages;
  const text = body.prompt ?? body.input;
  if (typeof text !== "string" || text.trim() === "") throw missing();
  return [{ role: "user", content: text }];
}

function titleOf(messages: readonly Record<string, unknown>[]): string {
  const first = messages.find((one) => one.role === "user")?.content;
  return typeof first === "string" ? first : "";
}

/** What the client says first as the system takes the place of the default profile's own words. */
function withInstructions(items: Item[], settings: RunSettings): Item[] {
  const end = items.findIndex(
    (item) => item.type !== "message" || (item.role !== "system" && item.role !== "developer"),
  );
  if (end <= 0) return items;
  const texts = items.slice(0, end).flatMap((item) => (item.type === "message" ? item.content : []));
  settings.instructions = texts.map((part) => ("text" in part ? part.text : "")).join("\n\n");
  return items.slice(end);
}

/** They hold for the whole conversation: what is sent along again, before answers that are known, or was said before. */
async function keepInstructions(
  { app }: RequestContext,
  head: string,
  given: readonly Record<string, unknown>[],
  settings: RunSettings,
): Promise<void> {
  if (given.some(({ role }) => role === "assistant")) withInstructions(readMessages(given), settings);
  if (settings.instructions !== undefined) return;
  const { wire, instructions } = (await app.store.node(head))?.settings ?? {};
  // Those of a request to the Responses API hold for it alone.
  if (instructions !== undefined && wire?.instructions === undefined) settings.instructions = instructions;
}

interface Place {
  where: Partial<RunRequest>;
  name: string | undefined;
  /** The response with which it goes on. */
  head: string | null;
}

async function placeOf(context: RequestContext, id: string | undefined, title: string, keep: boolean): Promise<Place> {
  if (!id) return { where: { conversation: keep ? "new" : null }, name: undefined, head: null };
  const found = (await ownConversation(context, id).catch(() => undefined)) ?? (await begin(context, id, title));
  const where = { conversation: found.id, queue: true };
  return { where, name: found.name ?? undefined, head: found.head };
}

/** An id in our form that we do not know is a mistake; any other plain name begins a conversation of that name. */
async function begin(context: RequestContext, name: string, title: string): Promise<Conversation> {
  if (name.startsWith("conv_") || !NAME.test(name)) {
    throw new DoorError("not_found", `there is no conversation ${name.slice(0, 80)}`, { param: "conversation_id" });
  }
  const now = Date.now();
  const { services, identity, app } = context;
  const times = { createdAt: now, updatedAt: now };
  const place = { owner: identity.owner, workspace: services.workspace, head: null, metadata: {} };
  // Somebody may have begun it in the same moment: then it is that one.
  await app.store
    .saveConversation({ id: newId("conv", now), name, title: oneLine(title, 60), ...place, ...times })
    .catch((error: unknown) => {
      if (toRotundaError(error).code !== "usage") throw error;
    });
  return ownConversation(context, name);
}

function settingsOf(body: CreateCompletion): RunSettings {
  const settings: RunSettings = { foreground: true };
  const clientTools = clientToolsOf(body);
  if (clientTools.length > 0) settings.clientTools = clientTools;
  const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens;
  if (maxOutputTokens) settings.maxOutputTokens = maxOutputTokens;
  if (typeof body.temperature === "number") settings.temperature = body.temperature;
  if (body.parallel_tool_calls === false) settings.parallel = false;
  if (body.reasoning_effort) settings.reasoningEffort = body.reasoning_effort;
  if (body.metadata) settings.metadata = body.metadata;
  if (body.store === false) settings.store = false;
  const sampling = samplingOf(body);
  if (Object.keys(sampling).length > 0) settings.sampling = sampling;
  applyFormat(settings, body);
  settings.wire = { ...(body.model && { model: body.model }), ...(body.user !== undefined && { user: body.user }) };
  if (isLegacy(body)) {
    settings.wire.functions = true;
    // Their answer has room for one call.
    settings.parallel = false;
  }
  return settings;
}

/** Asked in the words that `tools` replaced, and so answered in them. */
function isLegacy(body: CreateCompletion): boolean {
  return (body.functions ?? []).length > 0 && (body.tools ?? []).length === 0;
}

function clientToolsOf(body: CreateCompletion): ClientTool[] {
  const clientTools = (body.tools ?? []).flatMap((tool, index) => {
    const { type } = tool;
    if (type !== "function" && type !== "custom") return [];
    const param = `tools[${index}].${type}`;
    const called = tool[type];
    if (typeof called !== "object" || called === null) throw wrong(param, "It is missing.");
    return [clientTool(tool, called as Record<string, unknown>, param)];
  });
  for (const [index, called] of (body.functions ?? []).entries())
    clientTools.push(clientTool({ type: "function" }, called, `functions[${index}]`));
  checkNames(clientTools);
  return clientTools;
}

function samplingOf(body: CreateCompletion): NonNullable<RunSettings["sampling"]> {
  return {
    ...(typeof body.top_p === "number" && { topP: body.top_p }),
    ...(body.stop && { stop: typeof body.stop === "string" ? [body.stop] : body.stop }),
    ...(typeof body.seed === "number" && { seed: body.seed }),
    ...(typeof body.presence_penalty === "number" && { presencePenalty: body.presence_penalty }),
    ...(typeof body.frequency_penalty === "number" && { frequencyPenalty: body.frequency_penalty }),
  };
}

function applyFormat(settings: RunSettings, body: CreateCompletion): void {
  const format = body.response_format as JsonObject | null | undefined;
  if (!format || format.type === "text") return;
  if (format.type === "json_object") settings.format = { type: "json_object" };
  else if (format.type === "json_schema") {
    const nested = format.json_schema;
    const schema = typeof nested === "object" && nested !== null && !Array.isArray(nested) ? nested : {};
    settings.format = formatOf({ type: "json_schema", ...schema }, "response_format.json_schema");
  } else throw new DoorError("usage", "It can be text, json_object or json_schema.", { param: "response_format.type" });
}

/** The choice in the form that the Responses API has. */
function toolChoiceOf({ tool_choice: choice, function_call: call }: CreateCompletion): unknown {
  if (choice === undefined || choice === null) {
    return typeof call === "object" && call !== null ? { type: "function", name: call.name } : call;
  }
  return typeof choice === "object" ? flatChoice(choice) : choice;
}

/** `{type, function: {name}}` becomes `{type, name}`, alone or in a list of allowed ones. */
function flatChoice(choice: Record<string, unknown>): Record<string, unknown> {
  const nested = typeof choice.type === "string" ? choice[choice.type] : undefined;
  if (typeof nested !== "object" || nested === null) return choice;
  const { tools, ...fields } = nested as Record<string, unknown>;
  const flat = { ...fields, type: choice.type };
  return tools === undefined ? flat : { ...flat, tools: objectsOf(tools).map(flatChoice) };
}
