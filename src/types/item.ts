/**
 * Items: the unit of what was said or done, in the shapes of the Open Responses specification.
 *
 * Invariant: an item is plain JSON and means the same in the store, on the wire and on the screen.
 * What no client sees (provider-bound data, the model's own call id) stands beside it, in `EntryMeta`.
 */
import type { Json } from "./json.ts";
import type { IncompleteReason } from "./response.ts";

export type ItemStatus = "in_progress" | "completed" | "incomplete";

export interface InputText {
  type: "input_text";
  text: string;
}

export interface InputImage {
  type: "input_image";
  /** An `https:` or `data:` URL. */
  image_url: string;
  detail?: "auto" | "low" | "high";
}

export interface InputFile {
  type: "input_file";
  filename?: string;
  /** A `data:` URL with base64. */
  file_data: string;
}

export interface OutputText {
  type: "output_text";
  text: string;
  annotations: Json[];
}

export interface Refusal {
  type: "refusal";
  refusal: string;
}

export interface ReasoningText {
  type: "reasoning_text";
  text: string;
}

export type ContentPart = InputText | InputImage | InputFile | OutputText | Refusal;

export interface MessageItem {
  type: "message";
  id: string;
  role: "user" | "assistant" | "system" | "developer";
  status: ItemStatus;
  content: ContentPart[];
  /** Of an assistant's message that a client has sent along: "commentary" before calls, or the "final_answer". */
  phase?: "commentary" | "final_answer";
}

export interface ReasoningItem {
  type: "reasoning";
  id: string;
  status: ItemStatus;
  summary: { type: "summary_text"; text: string }[];
  content: ReasoningText[];
}

/** A call that the client runs: it ends the response, and its output comes with the next one. */
export interface FunctionCallItem {
  type: "function_call";
  id: string;
  call_id: string;
  name: string;
  /** Set where the client nested its tool in a namespace. */
  namespace?: string;
  /** Its tool takes free text: the client knows the call as a `custom_tool_call` with the `input` of these arguments. */
  custom?: true;
  /** The arguments as the model wrote them: JSON text, not checked. */
  arguments: string;
  status: ItemStatus;
}

export interface FunctionCallOutputItem {
  type: "function_call_output";
  id: string;
  call_id: string;
  /** It answers a call whose tool takes free text. */
  custom?: true;
  output: string;
  status: ItemStatus;
}

/**
 * A call that the engine runs: built-in tools (`server_label` "rotunda"), MCP tools, sub-agents.
 *
 * `in_progress`: the model has asked for it, it has not started. `calling`: it has started, and its
 * outcome is not known yet. `completed` and `failed`: it has an outcome. `incomplete`: it was started
 * and interrupted (outcome unknown), or it was never run; `error` says which.
 */
export interface McpCallItem {
  type: "mcp_call";
  id: string;
  server_label: string;
  name: string;
  /** The arguments as the model wrote them: JSON text, not checked. */
  arguments: string;
  status: "in_progress" | "calling" | "completed" | "failed" | "incomplete";
  /** What the model is told, cut to the limit; null until there is an outcome. */
  output: string | null;
  /** Why it failed; null when it did not. */
  error: string | null;
  approval_request_id: string | null;
}

export interface ApprovalRequestItem {
  type: "mcp_approval_request";
  id: string;
  server_label: string;
  name: string;
  arguments: string;
}

export interface ApprovalResponseItem {
  type: "mcp_approval_response";
  id: string;
  approval_request_id: string;
  approve: boolean;
  reason: string | null;
}

/** A summary that stands for older items in every prompt from here on. The items themselves stay where they are. */
export interface CompactionItem {
  type: "compaction";
  id: string;
  /** What a model is told in their place. */
  summary: string;
  /** Ids of the first and the last item that it stands for, and how many they are; absent in one that a client brought along. */
  covers?: { from: string; to: string; items: number };
}

export type Item =
  | MessageItem
  | ReasoningItem
  | FunctionCallItem
  | FunctionCallOutputItem
  | McpCallItem
  | ApprovalRequestItem
  | ApprovalResponseItem
  | CompactionItem;

/** One entry of a path. */
export interface Place {
  response: string;
  side: Entry["side"];
  position: number;
}

/** What a compaction changes about the prompts from here on. */
export interface Compaction {
  /**
   * "summary": its text stands for the range. "first-last": a mark does. "outputs": nothing is left out, but results of
   * tools within the range are shown as head and tail.
   */
  strategy: "summary" | "first-last" | "outputs";
  /** Both included. */
  from: Place;
  to: Place;
  /** Entries of the range when it was made: fewer later mean that something was taken out, and so must be forgotten. */
  items: number;
  /** Ids of entries of the range that stay as they are: instructions, the question that is being worked on. */
  kept: string[];
  /** "outputs": characters of a result that are shown. */
  characters?: number;
}

/** What stands beside an item and is never shown to a client. */
export interface EntryMeta {
  /** Key of the model that made the item (`Model.key`): provider-bound data goes back to this model only. */
  model?: string;
  /** Provider-bound data of the whole model call, verbatim; on the call's last entry. */
  raw?: Json;
  /** Why the model stopped; on the last entry of each finished model call, and only there. */
  finish?: FinishReason;
  /** The endpoint's own word where `finish` is "other". */
  finishRaw?: string;
  /** The model was asked for its last answer, without tools, because this limit was reached; on the call's last entry. */
  final?: IncompleteReason;
  usage?: Usage;
  /** The name by which the model called the tool. */
  tool?: string;
  /** The model's own id of the call. */
  callId?: string;
  /** The model is an agent and has run this call itself: it is never run by us. */
  agent?: true;
  /** The engine's own question (a nudge, a request for a final answer), not a person's. */
  synthetic?: string;
  /** Arguments after a hook rewrote them; what really ran. */
  rewritten?: string;
  /** Length in characters of the whole output, where `output` was cut. The whole is in the store. */
  wholeLength?: number;
  /** Milliseconds from start to outcome of a call. */
  duration?: number;
  /** What the call has brought beside its text, for models that take images: `data:` URLs. */
  images?: InputImage[];
  /** Beside a compaction that was made here. */
  compaction?: Compaction;
}

/** An item at its place. `position` counts from 0 within the side; on the output side it is `output_index`. */
export interface Entry {
  side: "input" | "output";
  position: number;
  /** 0 for input; else the number of the model call (from 1) that made it or that it was made for. */
  turn: number;
  item: Item;
  meta: EntryMeta;
}

export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter" | "other";

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details: { cached_tokens: number };
  output_tokens_details: { reasoning_tokens: number };
  /** Money in US dollars, where the endpoint said it. */
  cost?: number;
}
