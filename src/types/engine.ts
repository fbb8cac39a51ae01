/** Engine: all that a door may know. From a door's handler to a stored row it is three calls. */
import type { Approval, Decision } from "./approval.ts";
import type { RunEvent } from "./event.ts";
import type { Item } from "./item.ts";
import type { JsonObject } from "./json.ts";
import type { Caller, FullResponse, PermissionMode, ResponseNode, RunSettings } from "./response.ts";
import type { Tool, ToolResult } from "./tool.ts";

/** Somebody at hand who can answer. Rejecting or never answering leaves the approval open. */
export type Approver = (approval: Approval, signal: AbortSignal) => Promise<Decision>;

export interface RunRequest {
  /** A text is one user message. */
  input: string | Item[];
  previousResponseId?: string;
  /** Id or name of a conversation to go on with, "new" for a fresh one, null for none. Default: "new" for a root. */
  conversation?: string | null;
  /** Name for a conversation that is made by this request. */
  conversationName?: string;
  caller?: Caller;
  profile?: string;
  model?: string;
  settings?: RunSettings;
  workspace: string;
  door: string;
  /** In this process only: never stored. */
  approver?: Approver;
  /** Called with the id as soon as it is durable, before anything runs. */
  onStart?: (responseId: string) => void;
}

export interface Judgement {
  effect: "allow" | "ask" | "deny";
  /** The rule, or what the mode says. */
  why: string;
  /** What "always this pattern" would add. */
  pattern: string;
}

export interface Engine {
  /** Durable when it resolves; runs on by itself. */
  start(request: RunRequest): Promise<ResponseNode>;
  /** Replays what is stored, follows live, ends after the terminal event. `after` is a sequence number; default -1. */
  watch(id: string, after?: number, signal?: AbortSignal): AsyncIterable<RunEvent>;
  /** Resolves when it has ended, or waits for a person who is not at hand. */
  wait(id: string): Promise<ResponseNode>;
  get(id: string): Promise<FullResponse>;
  /** Goes on with a response that has not ended: after a crash, or after a decision. */
  resume(id: string, approver?: Approver): Promise<ResponseNode>;
  decide(approvalId: string, decision: Decision): Promise<Approval>;
  /** Folded in at the next tool boundary. */
  steer(id: string, items: Item[]): Promise<void>;
  cancel(id: string, reason: string): Promise<void>;
  cancelAll(reason: string): Promise<number>;
  /** A tool without a model, asked for by a person or a program. Deny rules hold. */
  call(
    tool: string,
    input: JsonObject,
    options: { workspace: string; signal?: AbortSignal; by: string },
  ): Promise<ToolResult>;
  /** What the rules would say to a call, without making it. */
  judge(
    tool: string,
    input: JsonObject,
    options: { workspace: string; profile?: string; mode?: PermissionMode },
  ): Promise<Judgement>;
  /** What a response says at last: the text of its last assistant message that has one. */
  textOf(response: FullResponse): string;
  /** The tools that a profile offers. */
  tools(profile?: string): Promise<readonly Tool[]>;
  /** Full id for a prefix or an ending of four characters or more. Throws `not_found`, `ambiguous_id`, `invalid_id`. */
  resolveId(part: string, kind: "response" | "conversation" | "approval" | "item"): Promise<string>;
  /** Stops everything without ending it: it can be resumed. */
  stop(): Promise<void>;
}
