/**
 * From the body of `POST /v1/responses` to a request to the engine.
 *
 * Invariant: what the contract lets a client ask for is either done or refused with the field's name; tools of
 * types that only another vendor has are passed over.
 */
import type { RunRequest } from "../../types/engine.ts";
import type { JsonObject, JsonSchema } from "../../types/json.ts";
import type { ClientTool, ResponseNode, RunSettings, TextFormat } from "../../types/response.ts";
import type { Tool } from "../../types/tool.ts";
import { parked } from "../../util/parked.ts";
import { ownConversation, ownPrevious } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { message, readInput } from "./input-items.ts";
import { chooseModel } from "./model-choice.ts";
import { checkOutputs, itemFinder } from "./responses-history.ts";
import type { CreateResponse } from "./responses-schemas.ts";
import { applyToolChoice, toolsOf, wrong } from "./responses-tools.ts";

export async function requestOf(context: RequestContext, body: CreateResponse): Promise<RunRequest> {
  check(body);
  const { profile, model, agent } = await chooseModel(context, body.model);
  const parent = body.previous_response_id ? await ownPrevious(context, body.previous_response_id) : undefined;
  const input = await readInput(body.input ?? [], itemFinder(context, parent));
  if (input.length === 0) throw wrong("input", "The input is empty.");
  await checkOutputs(
    context,
    parent ?? (await headOf(context, body)),
    input,
    Array.isArray(body.input) ? body.input : [],
  );
  if (input.some((item) => item.type === "mcp_approval_response") && !context.identity.scopes.includes("approve")) {
    throw new DoorError("insufficient_scope", "this token may not answer approvals", { param: "input" });
  }
  const { background } = body;
  const way = profile.onApproval ?? (background ? "wait" : "return");
  const { clientTools, others } = toolsOf(body.tools ?? []);
  const settings = settingsOf(body, clientTools);
  settings.onApproval = way;
  if (!agent) settings.plain = true;
  if (agent && body.instructions) {
    // An agent keeps its own instructions; the client's come on top of them.
    input.unshift(message("developer", [{ type: "input_text", text: body.instructions }]));
  } else if (body.instructions) settings.instructions = body.instructions;
  applyToolChoice(settings, body.tool_choice, await servedTools(context, body.tool_choice, profile.name));
  // The answer lists the tools as they came, also where not all of them are functions or may be called.
  settings.wire = wireOf(body, others || settings.clientTools?.length !== clientTools.length);
  const place = await placeOf(context, body, parent);
  return {
    input,
    ...place,
    profile: profile.name,
    ...(model !== undefined && { model }),
    settings,
    workspace: context.services.workspace,
    door: "http",
    owner: context.identity.owner,
    ...(context.idempotency && { idempotency: context.idempotency }),
    ...(way === "wait" && { approver: parked }),
  };
}

const SEALED = "reasoning.encrypted_content";
export const NO_LOGPROBS = "Log probabilities are not to be had here.";

/** What would change the answer and cannot be done is refused; what is a hint only may be passed over. */
/** Characters of what every answer repeats: it is written, hashed and listed with each response. */
const MOST_SETTINGS = 1_000_000;

function check(body: CreateResponse): void {
  if ((body.instructions?.length ?? 0) > MOST_SETTINGS)
    throw wrong("instructions", "instructions are longer than 1,000,000 characters: send them as input.");
  if (body.tools && JSON.stringify(body.tools).length > MOST_SETTINGS)
    throw wrong("tools", "tools are longer than 1,000,000 characters.");
  if (body.previous_response_id && body.conversation)
    throw wrong("previous_response_id", "Give previous_response_id or conversation, not both.");
  if (body.background && body.store === false) throw wrong("background", "background needs store: true.");
  if (body.include?.includes("message.output_text.logprobs")) throw wrong("include", NO_LOGPROBS);
  if (body.top_logprobs) throw wrong("top_logprobs", NO_LOGPROBS);
  if (body.moderation) throw wrong("moderation", "Nothing is moderated here: leave it out.");
  if (body.prompt) throw wrong("prompt", "There are no stored prompts here: send instructions and input.");
  if (Object.keys(body.metadata ?? {}).length > 16) throw wrong("metadata", "metadata has more than 16 pairs.");
}

/** What a request that names a conversation goes on from. */
async function headOf(context: RequestContext, { conversation }: CreateResponse): Promise<ResponseNode | undefined> {
  if (!conversation) return undefined;
  const { head } = await ownConversation(context, typeof conversation === "string" ? conversation : conversation.id);
  return head === null ? undefined : context.app.store.node(head);
}

/** Where in the tree it goes, and whether it may wait behind a turn that still runs. */
async function placeOf(
  context: RequestContext,
  body: CreateResponse,
  parent: ResponseNode | undefined,
): Promise<Partial<RunRequest>> {
  if (body.conversation) {
    const id = typeof body.conversation === "string" ? body.conversation : body.conversation.id;
    const conversation = await ownConversation(context, id);
    const head = conversation.head === null ? undefined : await context.app.store.node(conversation.head);
    return { conversation: conversation.id, queue: head?.status !== "waiting" || body.background === true };
  }
  if (!parent) return { conversation: null };
  return {
    previousResponseId: parent.id,
    queue: parent.status !== "waiting" || body.background === true,
    ...(parent.conversationId === null && { conversation: null }),
  };
}

function settingsOf(body: CreateResponse, clientTools: ClientTool[]): RunSettings {
  const settings: RunSettings = {};
  if (clientTools.length > 0) settings.clientTools = clientTools;
  if (typeof body.temperature === "number") settings.temperature = body.temperature;
  if (typeof body.top_p === "number") settings.sampling = { topP: body.top_p };
  if (body.max_output_tokens) settings.maxOutputTokens = body.max_output_tokens;
  if (body.max_tool_calls) settings.maxToolCalls = body.max_tool_calls;
  if (body.parallel_tool_calls === false) settings.parallel = false;
  if (body.reasoning?.effort) settings.reasoningEffort = body.reasoning.effort;
  if (body.metadata && Object.keys(body.metadata).length > 0) settings.metadata = body.metadata;
  if (body.store === false) settings.store = false;
  if (!body.background) settings.foreground = true;
  const threshold = body.context_management?.find(({ type }) => type === "compaction")?.compact_threshold;
  if (threshold) settings.compaction = threshold;
  // Said explicitly: what is too long is to be an error. Said nothing, the configuration holds.
  else if (body.truncation === "disabled") settings.compaction = false;
  const { format } = body.text ?? {};
  if (format && format.type !== "text") settings.format = formatOf(format as unknown as JsonObject);
  return settings;
}

/** `json_schema` needs a name and a schema. Throws `usage`. */
export function formatOf(format: JsonObject, param = "text.format"): TextFormat {
  if (format.type !== "json_schema") return { type: format.type === "json_object" ? "json_object" : "text" };
  const { name, schema, description, strict } = format;
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name))
    throw wrong(`${param}.name`, "A name of up to 64 letters, digits, _ and - is needed.");
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    throw wrong(`${param}.schema`, "A JSON schema is needed.");
  return {
    type: "json_schema",
    name,
    schema: schema as JsonSchema,
    ...(typeof description === "string" && { description }),
    ...(typeof strict === "boolean" && { strict }),
  };
}

/** What the answer repeats of the request, beside what the settings hold. */
function wireOf(body: CreateResponse, wholeTools: boolean): JsonObject {
  const given: Record<string, unknown> = {
    model: body.model ?? undefined,
    instructions: body.instructions ?? undefined,
    background: body.background === true ? true : undefined,
    truncation: body.truncation ?? undefined,
    tool_choice: body.tool_choice ?? undefined,
    tools: wholeTools && body.tools?.length ? body.tools : undefined,
    include: body.include?.includes(SEALED) ? [SEALED] : undefined,
    reasoning_summary: body.reasoning?.summary ?? body.reasoning?.generate_summary ?? undefined,
    verbosity: body.text?.verbosity ?? undefined,
    prompt_cache_key: body.prompt_cache_key ?? undefined,
    safety_identifier: body.safety_identifier ?? undefined,
    user: body.user,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as JsonObject;
}

/** The engine's tools; asked for only where the choice of tools speaks of some. */
export async function servedTools(context: RequestContext, choice: unknown, profile: string): Promise<readonly Tool[]> {
  return typeof choice === "object" && choice !== null ? context.app.engine.tools(profile) : [];
}
