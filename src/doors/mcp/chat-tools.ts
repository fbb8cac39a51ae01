/**
 * Polybrain's tools: chat with a model, list the models, read a conversation (parity P1 to P6).
 *
 * Invariant: results are one text of JSON with Polybrain's fields; a model switch goes on from the same answer in a
 * conversation of its own, and nothing is copied.
 */
import type { ServerContext } from "@modelcontextprotocol/server";
import { z } from "zod";
import { toRotundaError } from "../../types/error.ts";
import type { FullResponse } from "../../types/response.ts";
import { factsOf } from "./ask-tools.ts";
import { choose, conversationOf } from "./choice.ts";
import { messageOf } from "./messages.ts";
import { type Answer, fail, type Result, say } from "./results.ts";
import type { Session } from "./session.ts";
import type { Outcome } from "./waiting.ts";

export const chatInput = z.object({
  message: z.string().min(1).describe("What to say to the model"),
  conversationId: z.string().min(1).max(200).optional().describe("Go on with this conversation"),
  modelId: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("Of list_models; another one than before goes on in a new conversation"),
  reasoning: z.boolean().optional().describe("Have the model think first, and return what it thought"),
  idempotencyKey: z.string().min(1).max(200).optional().describe("Said twice with one key, it is said once"),
});

export const chatOutput = z.object({
  conversationId: z.string().nullable(),
  response: z.string(),
  reasoning: z.string().optional(),
  modelId: z.string(),
  responseId: z.string(),
  status: z.string(),
});

export async function chat(
  session: Session,
  given: z.output<typeof chatInput>,
  context: ServerContext,
): Promise<Answer> {
  const { message, conversationId, modelId, reasoning = false, idempotencyKey } = given;
  const tell = (outcome: Outcome, id: string) => tellChat(session, outcome, id, reasoning);
  return session.answer(context, tell, async () => {
    const app = await session.caller.app();
    const conversation =
      conversationId === undefined ? undefined : await conversationOf(app, session.caller, conversationId);
    const head = conversation?.head ? await app.store.node(conversation.head) : undefined;
    const { profile, model, plain } = await choose(app, session.caller, modelId ?? head?.model);
    const switched = modelId !== undefined && head !== undefined && modelId !== head.model;
    const node = await session.start(app, {
      request: {
        input: message,
        profile,
        ...(model !== undefined && { model }),
        ...(switched
          ? { previousResponseId: head.id, conversation: "new" }
          : conversation && { conversation: conversation.id, queue: true }),
        settings: {
          // Who names a model talks with it; an agent with its tools is asked by the name of its profile.
          ...((plain || modelId === undefined) && { plain: true, instructions: "", toolFilters: [[]] }),
          ...(reasoning && { reasoning: true }),
        },
      },
      idempotencyKey,
    });
    return { app, id: node.id, cancels: true };
  });
}

async function tellChat(session: Session, outcome: Outcome, id: string, reasoning: boolean): Promise<Result> {
  const app = await session.caller.app();
  const response = await app.engine.get(id);
  const { conversationId, model: modelId, status } = response;
  const common = { conversationId, modelId, responseId: id, status };
  if (outcome.kind !== "ended") {
    const what = response.error ? `It waits: ${response.error.message}` : "It waits for a person to allow a call";
    const how = outcome.kind === "waiting" ? what : "It is still running";
    const text = `${how}, nothing is lost. Response ID: ${id}. Call ask_wait with this taskId to get the answer.`;
    return jsonOf({ ...common, response: text });
  }
  const said = app.engine.textOf(response);
  if (status === "failed" || status === "cancelled") {
    const { message = "it was cancelled" } = response.error ?? {};
    return fail(`Error: Failed to get response from ${modelId}: ${message}`, factsOf(app, response));
  }
  const thought = reasoning ? thoughtsOf(response) : "";
  return jsonOf({
    conversationId,
    response: said,
    ...(thought !== "" && { reasoning: thought }),
    modelId,
    responseId: id,
    status,
  });
}

function jsonOf(value: object): Result {
  return say(JSON.stringify(value), value);
}

function thoughtsOf({ output }: FullResponse): string {
  const parts = output.flatMap((item) =>
    item.type === "reasoning" ? [...item.summary, ...item.content].map((part) => part.text) : [],
  );
  return parts.join("\n");
}

/** Polybrain's words for what was not found. */
export function chatError(
  given: { conversationId?: string | undefined; modelId?: string | undefined },
  thrown: unknown,
): string {
  const { code, message } = toRotundaError(thrown);
  if (code === "model_not_found") return `Error: Model not configured: ${given.modelId ?? message}`;
  if (code === "not_found" && given.conversationId !== undefined) {
    return `Error: Conversation not found: ${given.conversationId.slice(0, 200)}`;
  }
  return `Error: ${message}`;
}

export const modelsOutput = z.object({
  models: z.array(z.object({ id: z.string(), modelName: z.string(), baseUrl: z.string() })),
  profiles: z.array(z.object({ id: z.string(), description: z.string() })),
});

/** The default one first. */
export async function listModels({ caller }: Session): Promise<Result> {
  const app = await caller.app();
  const models = [...(await app.models())].sort((a, b) => Number(b.default) - Number(a.default));
  const profiles = app.profiles().filter(({ name }) => caller.mayUseProfile(name));
  return jsonOf({
    models: models.map(({ id, model: modelName, baseUrl }) => ({ id, modelName, baseUrl: baseUrl ?? "" })),
    profiles: profiles.map(({ name, description }) => ({ id: `profile/${name}`, description })),
  });
}

export const historyOutput = z.object({
  conversationId: z.string(),
  modelId: z.string().nullable(),
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
});

export async function conversationHistory(session: Session, id: string): Promise<Result> {
  const app = await session.caller.app();
  const conversation = await conversationOf(app, session.caller, id);
  const path = conversation.head === null ? [] : await app.store.path(conversation.head);
  const messages = path.flatMap(({ entries }) =>
    entries.flatMap(({ item, meta }) => (meta.synthetic ? [] : messageOf(item))),
  );
  return jsonOf({ conversationId: conversation.id, modelId: path.at(-1)?.node.model ?? null, messages });
}
