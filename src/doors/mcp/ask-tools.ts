/**
 * The tools of the Claude bridge, for any model and agent: ask, and go on from any answer (parity C1 to C4, C10 to C12).
 *
 * Invariant: clients read `Response ID: …` and the lines of `ask_status`; a task id is the id of a response.
 */
import type { ServerContext } from "@modelcontextprotocol/server";
import { z } from "zod";
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { FullResponse, RunSettings } from "../../types/response.ts";
import { choose, nodeOf, responseOf } from "./choice.ts";
import { type Answer, fail, type Result, say } from "./results.ts";
import type { Session } from "./session.ts";
import { type Outcome, questionsOf } from "./waiting.ts";

const id = (what: string) => z.string().min(1).max(200).describe(what);

export const questionShape = {
  prompt: z.string().min(1).describe("The question or task"),
  previousResponseId: id("Go on from this answer: any response id, whoever made it").optional(),
  modelId: id("A model, an agent (claude-code) or a profile: see list_models").optional(),
  conversationId: id("Go on at the end of this conversation").optional(),
  workingDirectory: z.string().optional().describe("Absolute path of the directory to work in"),
  systemPrompt: z.string().optional().describe("Takes the place of the profile's instructions"),
  appendSystemPrompt: z.string().optional().describe("Joins the instructions"),
  maxTurns: z.number().int().min(1).max(1_000).optional().describe("Model calls at most"),
  permissionMode: z.enum(["default", "acceptEdits", "bypassPermissions", "plan"]).optional(),
  idempotencyKey: z.string().min(1).max(200).optional().describe("Asked twice with one key, it is started once"),
};

export const question = z.object(questionShape);
export type Question = z.output<typeof question>;

export const answerSchema = z.object({
  responseId: z.string(),
  status: z.string().describe("queued, in_progress, waiting, completed, incomplete, failed or cancelled"),
  result: z.string().nullable().describe("The answer, once there is one"),
  error: z.string().nullable(),
  conversationId: z.string().nullable(),
  model: z.string(),
  profile: z.string(),
  cost: z.number().nullable().describe("US dollars, where it is known"),
  durationMs: z.number(),
  next: z.string().optional().describe("What to do to get the answer, where there is none yet"),
  waitsFor: z
    .array(z.object({ approvalId: z.string(), tool: z.string(), arguments: z.string(), why: z.string() }))
    .optional(),
});

const NEEDED = { default: undefined, plan: undefined, acceptEdits: "approve", bypassPermissions: "admin" } as const;

const MODES = { default: "ask", acceptEdits: "accept-edits", bypassPermissions: "auto", plan: "plan" } as const;

/** Starts the turn that a question asks for. */
export async function begin(session: Session, given: Question, fresh = false): Promise<{ app: App; id: string }> {
  const { caller } = session;
  const app = await appFor(session, given.workingDirectory);
  const previous =
    given.previousResponseId === undefined ? undefined : await nodeOf(app, caller, given.previousResponseId);
  const chosen = await choose(app, caller, given.modelId ?? previous?.model);
  const { profile, model, plain } = chosen;
  const settings: RunSettings = {
    ...(plain && { plain: true }),
    ...(given.maxTurns !== undefined && { limits: { turns: given.maxTurns } }),
    ...(given.permissionMode !== undefined && { mode: MODES[given.permissionMode] }),
  };
  // Who may not answer questions may not have them skipped either.
  const needed = given.permissionMode && NEEDED[given.permissionMode];
  if (needed !== undefined && !caller.may(needed)) {
    throw new RotundaError("insufficient_scope", `permissionMode ${given.permissionMode} needs the scope ${needed}`);
  }
  const { systemPrompt, appendSystemPrompt } = given;
  if (systemPrompt !== undefined || appendSystemPrompt !== undefined) {
    const own = systemPrompt ?? (await app.profile(profile)).instructions;
    settings.instructions = [own, appendSystemPrompt].filter((part) => part !== undefined).join("\n\n");
  }
  // Another model goes on in a conversation of its own (Polybrain's clone); an answer that is not the last one does too.
  const switched = previous !== undefined && model !== undefined && model !== previous.model;
  const node = await session.start(app, {
    request: {
      input: given.prompt,
      profile: previous && given.modelId === undefined ? previous.profile : profile,
      settings,
      ...(model !== undefined && { model }),
      ...(previous && { previousResponseId: previous.id }),
      ...(given.conversationId !== undefined && { conversation: given.conversationId, queue: true }),
      ...((fresh || switched) && { conversation: "new" }),
    },
    idempotencyKey: given.idempotencyKey,
    workingDirectory: given.workingDirectory,
  });
  return { app, id: node.id };
}

async function appFor({ caller }: Session, folder: string | undefined): Promise<App> {
  if (folder === undefined) return caller.app();
  if (!caller.local) {
    throw new RotundaError("insufficient_scope", "Only local clients may say which directory to work in.");
  }
  const { accessSync, constants, statSync } = await import("node:fs");
  const { isAbsolute } = await import("node:path");
  if (!isAbsolute(folder) || !statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new RotundaError("usage", `Working directory does not exist: ${folder}`);
  }
  try {
    accessSync(folder, constants.R_OK | constants.X_OK);
  } catch {
    throw new RotundaError("usage", `Working directory is not accessible: ${folder}`);
  }
  return caller.app(folder);
}

/** A response, as structured content. */
export function factsOf(app: App, response: FullResponse) {
  const { id: responseId, status, error, conversationId, model, profile, usage } = response;
  const ended = response.endedAt !== null;
  return {
    responseId,
    status,
    result: ended ? app.engine.textOf(response) : null,
    error: error?.message ?? null,
    conversationId,
    model,
    profile,
    cost: usage.cost ?? null,
    durationMs: (response.endedAt ?? Date.now()) - response.createdAt,
  };
}

/** What the bridge's clients read. */
export async function tellAnswer(outcome: Outcome, responseId: string, app: App): Promise<Result> {
  const response = await app.engine.get(responseId);
  const facts = factsOf(app, response);
  if (outcome.kind === "ended") return tellEnd(app, response);
  if (outcome.kind === "waiting" && response.error) {
    const next = `Once it is raised, call ask_wait with taskId ${responseId}.`;
    const text = `Waiting: ${response.error.message}.\n\nResponse ID: ${responseId}\n\n${next}`;
    return say(text, { ...facts, next });
  }
  if (outcome.kind === "waiting") {
    const waitsFor = outcome.approvals.map(({ id: approvalId, tool, arguments: given, why }) => {
      return { approvalId, tool, arguments: given, why };
    });
    const lines = waitsFor.map(
      (one) => `- ${one.tool} ${one.arguments.slice(0, 500)} (${one.why}): rotunda approve ${one.approvalId.slice(-8)}`,
    );
    const next = `Once it is answered, call ask_wait with taskId ${responseId}.`;
    const text = `Waiting for a person to allow a call:\n${lines.join("\n")}\n\nResponse ID: ${responseId}\n\n${next}`;
    return say(text, { ...facts, next, waitsFor });
  }
  // Some clients show their model the structured content alone.
  const next = `Call ask_wait with taskId ${responseId} to get the answer (ask_status tells how it stands).`;
  const text = `Still running, nothing is lost.\n\nResponse ID: ${responseId}\n\n${next}`;
  return say(text, { ...facts, next });
}

function tellEnd(app: App, response: FullResponse): Result {
  const facts = factsOf(app, response);
  const { id: responseId, status } = response;
  if (status === "failed" || status === "cancelled") {
    const why = response.error?.message ?? (status === "cancelled" ? "it was cancelled" : "it failed");
    const said = facts.result ? `\n\nSaid before that:\n${facts.result}` : "";
    return fail(`Error: ${why}${said}\n\nResponse ID: ${responseId}`, facts);
  }
  const cut = status === "incomplete" ? `\n\n[Not complete: ${response.incompleteReason}]` : "";
  return say(`${facts.result}${cut}\n\nResponse ID: ${responseId}`, facts);
}

export function ask(session: Session, given: Question, context: ServerContext): Promise<Answer> {
  return session.answer(context, tellAnswer, async () => ({ ...(await begin(session, given)), cancels: true }));
}

/** A second answer from the same point: a conversation of its own, whoever goes on in the first. */
export function branch(session: Session, given: Question, context: ServerContext): Promise<Answer> {
  return session.answer(context, tellAnswer, async () => ({ ...(await begin(session, given, true)), cancels: true }));
}

export async function askAsync(session: Session, given: Question): Promise<Result> {
  const { app, id: taskId } = await begin(session, given);
  const facts = factsOf(app, await app.engine.get(taskId));
  const next = `Call ask_wait with taskId ${taskId} to get the answer (ask_status tells how it stands).`;
  return say(`Task started successfully. Use ask_status with task ID: ${taskId}`, { ...facts, next });
}

export function askWait(
  session: Session,
  { taskId, timeoutSeconds }: { taskId: string; timeoutSeconds?: number | undefined },
  context: ServerContext,
): Promise<Answer> {
  return session.answer(context, tellAnswer, async () => {
    const app = await session.caller.app();
    const node = await nodeOf(app, session.caller, taskId);
    return { app, id: node.id, ...(timeoutSeconds !== undefined && { seconds: timeoutSeconds }) };
  });
}

const STATES = {
  queued: "pending",
  in_progress: "running",
  waiting: "running",
  completed: "completed",
  incomplete: "completed",
  failed: "failed",
  cancelled: "cancelled",
} as const;

export async function askStatus(session: Session, taskId: string): Promise<Result> {
  const app = await session.caller.app();
  const response = await responseOf(app, session.caller, taskId).catch(() => undefined);
  if (!response) return fail(`Task ${taskId} not found`);
  const facts = factsOf(app, response);
  const state = STATES[response.status];
  const limit = (await app.profile(response.profile).catch(() => undefined))?.limits.turns ?? 1;
  const done = response.endedAt === null ? Math.min(99, Math.round((100 * response.turns) / limit)) : 100;
  const seconds = Math.round(facts.durationMs / 1_000);
  const lines = [
    `Task ${response.id}:`,
    `Status: ${state}`,
    `Progress: ${done}%`,
    `Created: ${new Date(response.createdAt).toISOString()}`,
    `Updated: ${new Date(response.endedAt ?? Date.now()).toISOString()}`,
    `Elapsed: ${seconds < 60 ? "" : `${Math.floor(seconds / 60)}m `}${seconds % 60}s`,
    `Working Directory: ${response.workspace}`,
  ];
  if (state === "completed") {
    lines.push("", `Result: ${facts.result}`, `Response ID: ${response.id}`);
    if (facts.cost !== null) lines.push(`Cost: $${facts.cost.toFixed(6)}`);
    lines.push(`Duration: ${facts.durationMs}ms`);
  }
  if (state === "failed") lines.push("", `Error: ${response.error?.message ?? "it failed"}`);
  const waitsFor = response.status === "waiting" ? await questionsOf(app, response.id) : [];
  for (const { id: approvalId, tool } of waitsFor) {
    lines.push("", `Waits for a person to allow ${tool}: rotunda approve ${approvalId.slice(-8)}`);
  }
  return say(lines.join("\n"), facts);
}

export async function askCancel(session: Session, taskId: string): Promise<Result> {
  const app = await session.caller.app();
  const node = await nodeOf(app, session.caller, taskId).catch(() => undefined);
  const refused = fail(`Task ${taskId} could not be cancelled (may not exist or already completed)`);
  if (!node || node.endedAt !== null) return refused;
  try {
    await app.engine.cancel(node.id, "cancelled by the client");
    await app.engine.wait(node.id);
  } catch {
    return refused;
  }
  return say(`Task ${taskId} cancelled successfully`, factsOf(app, await app.engine.get(node.id)));
}
