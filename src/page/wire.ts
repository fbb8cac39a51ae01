/** What the server says, as far as the page reads it. Invariant: fields that may be missing on the wire are optional here. */

export type RunStatus = "queued" | "in_progress" | "waiting" | "completed" | "incomplete" | "failed" | "cancelled";

export interface Part {
  type: string;
  text?: string;
  refusal?: string;
  image_url?: string;
  filename?: string;
  /** A `data:` address. */
  file_data?: string;
}

/** An item of any type: fields that its type does not have are absent. */
export interface WireItem {
  type: string;
  id: string;
  status?: string;
  role?: string;
  content?: Part[];
  summary?: string | Part[];
  server_label?: string;
  name?: string;
  arguments?: string;
  input?: string;
  output?: string | null;
  error?: { content?: { text?: string }[] } | string | null;
  approval_request_id?: string | null;
  approve?: boolean;
  reason?: string | null;
  call_id?: string;
  /** Milliseconds that the call took, where it is known; not of the wire. */
  duration?: number;
}

export interface WireUsage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details?: { cached_tokens: number };
  output_tokens_details?: { reasoning_tokens: number };
  cost?: number;
}

export interface WireResponse {
  id: string;
  /** Seconds since the epoch. */
  created_at: number;
  completed_at: number | null;
  status: RunStatus;
  rotunda_status?: RunStatus;
  model: string;
  profile?: string;
  door?: string;
  prompt_excerpt?: string | null;
  workspace?: string;
  /** Milliseconds of its calls, where they were asked for. */
  rotunda_durations?: Record<string, number>;
  cost?: number | null;
  background?: boolean;
  conversation: { id: string } | null;
  previous_response_id: string | null;
  error: { code: string; message: string } | null;
  incomplete_details: { reason: string } | null;
  output?: WireItem[];
  usage: WireUsage | null;
}

/** An event of a stream; fields that its type does not have are absent. */
export interface WireEvent {
  type: string;
  sequence_number: number;
  response?: WireResponse;
  item?: WireItem;
  output_index?: number;
  content_index?: number;
  item_id?: string;
  delta?: string;
  text?: string;
  arguments?: string;
  part?: Part;
}

export interface WireConversation {
  id: string;
  title: string;
  head?: string | null;
  /** Milliseconds since the epoch. */
  createdAt: number;
  updatedAt: number;
  preview?: string;
}

export interface PendingApproval {
  id: string;
  toolName: string;
  serverLabel: string;
  arguments: unknown;
  responseId: string;
  why: string;
  pattern: string;
  createdAt: number;
  expiresAt: number;
  /** The beginning of what a person asked. */
  prompt?: string | null;
  workspace?: string;
  door?: string;
}

export interface Elicitation {
  id: string;
  server: string;
  mode: "form" | "url";
  message: string;
  /** Of a form: an object of primitive properties. */
  requestedSchema: { properties?: Record<string, ElicitationField>; required?: string[] } | null;
  /** Of a link. */
  url: string | null;
  /** Whose calls were under way when it was asked. */
  responseIds?: string[];
}

export interface ElicitationField {
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  enum?: string[];
  /** Names of the choices in `enum`, in its order. */
  enumNames?: string[];
  oneOf?: { const?: string; title?: string }[];
  /** Of a list: what may be in it. */
  items?: { enum?: string[]; anyOf?: { const?: string; title?: string }[] };
}

/** A node of the tree; times are seconds or milliseconds since the epoch, or ISO texts: read them with `moment`. */
export interface TreeNode {
  id: string;
  previous_response_id: string | null;
  caller: { response_id: string; item_id: string } | null;
  conversation_id: string | null;
  kind?: "answer" | "compaction";
  status: RunStatus;
  model: string;
  profile: string;
  door: string;
  workspace?: string;
  error?: { code: string; message: string } | null;
  created_at: number | string;
  ended_at: number | string | null;
  waits_for?: unknown;
  usage: WireUsage | null;
  cost: number | null;
  prompt: string | null;
  answer: string | null;
}

export interface WireTree {
  root: string;
  current: string | null;
  truncated: boolean;
  nodes: TreeNode[];
}

/** The response above a sub-agent's that somebody asked for, as far as the nodes go. */
export function outermost(id: string, nodes: ReadonlyMap<string, TreeNode>): string {
  const above = nodes.get(id)?.caller?.response_id;
  return above === undefined || above === id ? id : outermost(above, nodes);
}

/** Milliseconds since the epoch. */
export function moment(value: number | string | null | undefined): number {
  if (typeof value === "string") return Date.parse(value);
  if (typeof value !== "number") return 0;
  return value < 1e11 ? value * 1_000 : value;
}

export function isEnded(status: RunStatus): boolean {
  return status !== "queued" && status !== "in_progress" && status !== "waiting";
}
