/**
 * The tasks extension of the protocol of 2026-07-28 (SEP-2663), its server's side.
 *
 * Invariant: a task is answered with only where the request declares the extension, and only once it is durable, so
 * that `tasks/get` finds it at once; what keeps tasks is whoever serves them: here the tree of responses.
 */
import {
  type InputRequests,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { isJsonObject } from "../../types/json.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { Result } from "./results.ts";

export const TASKS = "io.modelcontextprotocol/tasks";

export interface Task {
  taskId: string;
  status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  statusMessage?: string;
  /** ISO 8601. */
  createdAt: string;
  lastUpdatedAt: string;
  /** How long it is kept. */
  ttlMs: number;
  pollIntervalMs: number;
}

/** With what it waits for, or what came of it. */
export interface DetailedTask extends Task {
  inputRequests?: InputRequests;
  result?: Result;
  error?: { code: number; message: string };
}

/** `undefined` and false: there is no such task. */
export interface TaskStore {
  get(taskId: string): Promise<DetailedTask | undefined>;
  /** Answers, by the key under which each was asked for; what nobody asked for is passed over. */
  update(taskId: string, answers: Record<string, unknown>): Promise<boolean>;
  /** One that has ended stays as it is. */
  cancel(taskId: string): Promise<boolean>;
}

const STATES = {
  queued: "working",
  in_progress: "working",
  waiting: "input_required",
  completed: "completed",
  incomplete: "completed",
  failed: "completed",
  cancelled: "cancelled",
} as const;

/** Nothing is thrown away by itself: a year, so that nobody takes it for a promise of for ever. */
const KEPT = 365 * 24 * 3_600_000;

/** A response as a task. */
export function taskOf({ id, status, createdAt, endedAt }: ResponseNode): Task {
  return {
    taskId: id,
    status: STATES[status],
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(endedAt ?? Math.max(createdAt, Date.now())).toISOString(),
    ttlMs: KEPT,
    pollIntervalMs: 1_000,
  };
}

/** Whether this request's client follows tasks. */
export function followsTasks(context: ServerContext): boolean {
  const envelope = context.mcpReq.envelope as Record<string, unknown> | undefined;
  const capabilities = envelope?.["io.modelcontextprotocol/clientCapabilities"];
  const extensions = isJsonObject(capabilities) ? capabilities.extensions : undefined;
  return isJsonObject(extensions) && isJsonObject(extensions[TASKS]);
}

/** Throws where this request's client does not. */
export function demandTasks(context: ServerContext): void {
  if (followsTasks(context)) return;
  throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS]: {} } } });
}

/** The result of a call that goes on as a task. */
export function asTask({ taskId, status, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs }: Task): Result {
  const task = { taskId, status, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs };
  return { ...task, resultType: "task", content: [] };
}

const named = z.looseObject({ taskId: z.string() });

/** Of the modern protocol only: the older ones know nothing of it. */
export function serveTasks(server: Server, store: TaskStore): void {
  server.registerCapabilities({ extensions: { [TASKS]: {} } });
  const unknown = (taskId: string) =>
    new ProtocolError(ProtocolErrorCode.InvalidParams, `Task not found: ${taskId.slice(0, 200)}`);
  server.setRequestHandler("tasks/get", { params: named }, async ({ taskId }, context) => {
    demandTasks(context);
    const task = await store.get(taskId);
    if (!task) throw unknown(taskId);
    return { ...task };
  });
  server.setRequestHandler("tasks/cancel", { params: named }, async ({ taskId }, context) => {
    demandTasks(context);
    if (!(await store.cancel(taskId))) throw unknown(taskId);
    return {};
  });
  const answers = named.extend({ inputResponses: z.record(z.string(), z.unknown()).optional() });
  server.setRequestHandler("tasks/update", { params: answers }, async ({ taskId, inputResponses }, context) => {
    demandTasks(context);
    const given = inputResponses ?? context.mcpReq.inputResponses ?? {};
    if (!(await store.update(taskId, given))) throw unknown(taskId);
    return {};
  });
}
