/** Engine: all that a door may know. From a door's handler to a stored row it is three calls. */
import type { Approval, Decision } from "./approval.ts";
import type { RunEvent } from "./event.ts";
import type { Item } from "./item.ts";
import type { JsonObject } from "./json.ts";
import type { Caller, FullResponse, Owner, PermissionMode, ResponseNode, RunSettings } from "./response.ts";
import type { ScheduleConfig } from "./schedule.ts";
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
  /** Default: "local". A parent or a conversation of another owner is `not_found`. */
  owner?: Owner;
  /** A second request with the same key starts nothing: `start` resolves with the first one's response. */
  idempotency?: { key: string; digest: string };
  /** Where the parent has not ended: wait behind it as `queued`, instead of failing with `response_not_ended`. */
  queue?: boolean;
  /** In this process only: never stored. */
  approver?: Approver;
  /** Called with the id as soon as it is durable, before anything runs. */
  onStart?: (responseId: string) => void;
}

/** Items that somebody brings along. `input` may be empty where something is left out. */
export interface RecordRequest extends RunRequest {
  /** Ids of items of the path that no longer belong to the conversation. */
  omit?: string[];
}

export interface DirectCallOptions {
  workspace: string;
  signal?: AbortSignal;
  /** Who asks: "cli", an owner. */
  by: string;
  /** For the audit log. Default: `by`. */
  door?: string;
  /** Default "auto": whoever asks is the approval. */
  mode?: PermissionMode;
  /** What was judged, and answered, before: it is not judged once more. */
  judged?: Pick<Judgement, "effect" | "why">;
  /** Makes the call in the tool's place. */
  perform?: (signal: AbortSignal) => Promise<ToolResult>;
}

export interface Judgement {
  effect: "allow" | "ask" | "deny";
  /** The rule, or what the mode says. */
  why: string;
  /** What "always this pattern" would add. */
  pattern: string;
}

export interface PruneOptions {
  /** Milliseconds, in place of what profiles, conversations and the configuration say. */
  olderThan?: number;
  /** Deletes nothing. */
  dryRun?: boolean;
  /** Hears now and then how many there are so far. */
  progress?: (deleted: number) => void;
}

export interface Pruned {
  /** Outermost responses; their sub-agents go with them. */
  deleted: number;
  /** Of which nothing is left. */
  conversations: number;
}

/** Events of a response, as they become known. */
export interface EventStream extends AsyncIterable<RunEvent> {
  /** The same in groups, none of them empty: what is known at one moment comes together. */
  groups(): AsyncIterable<readonly RunEvent[]>;
}

/** What has to be done now and then, by whichever process does it. */
export interface Upkeep {
  /** Lets an outermost response go on that waits for a budget, where that was raised or has begun anew. Undefined: it does not. */
  goOnWithinBudget(id: string, approver?: Approver): Promise<ResponseNode | undefined>;
  /** Starts what is due by schedule; `start` runs a request by the app of its own directory. Resolves with what was started. */
  startDue(start: (request: RunRequest) => Promise<ResponseNode>): Promise<ResponseNode[]>;
  /** Makes the schedules of a configuration the stored ones of a directory. One that can never be due is told, and keeps no other back. */
  syncSchedules(configured: readonly ScheduleConfig[], workspace: string): Promise<void>;
  /** Deletes what is older than it is to be kept. */
  prune(options?: PruneOptions): Promise<Pruned>;
}

export interface Engine {
  /** Durable when it resolves; runs on by itself. */
  start(request: RunRequest): Promise<ResponseNode>;
  /** Puts items into the tree as a response that has ended, without asking any model. */
  record(request: RecordRequest): Promise<ResponseNode>;
  /** Replays what is stored, follows live, ends after the terminal event. `after` is a sequence number; default -1. */
  watch(id: string, after?: number, signal?: AbortSignal): EventStream;
  /** Resolves when it has ended, or waits for a person who is not at hand. */
  wait(id: string): Promise<ResponseNode>;
  get(id: string): Promise<FullResponse>;
  /** As `resume`, but in this process in any case: that is what a runner calls. */
  run(id: string, approver?: Approver): Promise<ResponseNode>;
  /** Goes on with a response that has not ended: after a crash, or after a decision. */
  resume(id: string, approver?: Approver): Promise<ResponseNode>;
  /** Throws `not_found`, `approval_settled`, `approval_expired`. Starts nothing by itself: see `goOn`. */
  decide(approvalId: string, decision: Decision): Promise<Approval>;
  /**
   * After a decision: lets the response that waits for it go on, or starts the child of one that has returned, once.
   * Resolves with the response that runs now; undefined where another process has it, or answers are still missing.
   */
  goOn(approvalId: string, approver?: Approver): Promise<ResponseNode | undefined>;
  /** A response whose process is gone, and that nobody waits for any more, ends `incomplete` (`interrupted`). */
  interrupt(id: string): Promise<void>;
  /** From now on it is unknown at every door; its content goes as soon as no descendant needs it. Cancels a run. */
  delete(id: string): Promise<void>;
  /** Folded in at the next tool boundary. */
  steer(id: string, items: Item[]): Promise<void>;
  cancel(id: string, reason: string): Promise<void>;
  /** Of one owner, or of all. Resolves with how many were ended. */
  cancelAll(reason: string, owner?: Owner): Promise<number>;
  /** Approvals that nobody answered in time count as denied. Resolves with those; starts nothing by itself: see `goOn`. */
  expireApprovals(): Promise<Approval[]>;
  /**
   * A tool without a model, asked for by a person or a program. Throws `tool_not_found`, `denied`, `approval_needed`,
   * and what the tool throws.
   */
  call(tool: string, input: JsonObject, options: DirectCallOptions): Promise<ToolResult>;
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
  readonly upkeep: Upkeep;
  /** Stops everything without ending it: it can be resumed. */
  stop(): Promise<void>;
}
