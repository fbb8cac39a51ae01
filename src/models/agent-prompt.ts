/**
 * Agent prompt: what an agent must be told, and whether it can take up a session of its own for it.
 *
 * Invariant: a session is taken up only where it holds exactly what the path of the tree holds up to that point, in
 * the same directory; everything else is told as text. So whatever was taken out of a conversation stays out, and
 * branches do not hear of each other.
 */
import { hash } from "node:crypto";
import type { Entry, Item, MessageItem } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { HistoryNode, ModelRequest } from "../types/model.ts";
import { textOfFile, textOfPart } from "../util/content-text.ts";

export type PromptPart = { type: "text"; text: string } | { type: "image"; url: string };

/** What stands beside the last item of an answer, for its agent only. */
export interface AgentSession {
  session: string;
  /** The directory that it was made in. */
  cwd: string;
  /** What of the path it had been told: the number of entries, and a hash over their ids. */
  count: number;
  covers: string;
  /** How often it was asked something. */
  prompts: number;
}

export interface AgentPrompt {
  /** The session to take up; undefined: a new one, and `parts` tell everything. */
  session: AgentSession | undefined;
  parts: PromptPart[];
  /** For the next session: what it will have been told. */
  count: number;
  covers: string;
}

interface Told {
  entry: Entry;
  node: HistoryNode;
}

export function agentPrompt(request: ModelRequest, key: string, cwd: string): AgentPrompt {
  const real = request.history.filter(({ responseId }) => responseId !== "synthetic");
  const path = real.flatMap((node) => node.entries.map((entry): Told => ({ entry, node })));
  const asides = request.history
    .filter(({ responseId }) => responseId === "synthetic")
    .flatMap(({ entries }) => entries.flatMap(({ item }) => partsOf(item)));
  const covered = { count: path.length, covers: hashOf(path, path.length) };
  const taken = takeUp(path, key, cwd);
  if (taken) return { ...covered, session: taken.session, parts: [...taken.parts, ...asides] };
  return { ...covered, session: undefined, parts: [...transcript(path), ...asides] };
}

/** The same without a session: for one that its agent does not know any more. */
export function withoutSession(request: ModelRequest): AgentPrompt {
  return agentPrompt(request, "", "");
}

function hashOf(path: readonly Told[], count: number): string {
  const ids = path.slice(0, count).map(({ entry }) => entry.item.id);
  return hash("sha256", JSON.stringify(ids)).slice(0, 32);
}

// ---- a session that can be gone on with

function takeUp(
  path: readonly Told[],
  key: string,
  cwd: string,
): { session: AgentSession; parts: PromptPart[] } | undefined {
  const end = path.findLastIndex(({ entry }) => entry.side === "output" && entry.meta.finish !== undefined);
  const last = path[end];
  if (!last || last.entry.meta.model !== key) return undefined;
  const session = sessionOf(last.entry.meta.raw);
  if (!session || session.cwd !== cwd || session.count > end + 1) return undefined;
  if (hashOf(path, session.count) !== session.covers) return undefined;
  const parts: PromptPart[] = [];
  const unsure: string[] = [];
  for (const [index, { entry, node }] of path.entries()) {
    if (index < session.count) continue;
    if (node.edited) return undefined;
    const { item, meta } = entry;
    const own = entry.side === "output" && index <= end && (meta.model === key || meta.agent === true);
    if (own && item.type === "mcp_call" && item.status === "incomplete") unsure.push(callNote(item));
    if (own || item.type === "mcp_approval_request" || item.type === "mcp_approval_response") continue;
    if (item.type === "message" && item.role !== "assistant") parts.push(...partsOf(item));
    // Something that the session never heard of.
    else return undefined;
  }
  const notes = unsure.length === 0 ? "" : `${INTERRUPTED}\n\n${unsure.join("\n")}`;
  if (notes !== "") parts.unshift({ type: "text", text: notes });
  return { session, parts: parts.length > 0 ? parts : [{ type: "text", text: GO_ON }] };
}

const INTERRUPTED = "You were interrupted. About these calls of yours you must know:";
const GO_ON = "You were interrupted. Go on where you stopped.";

function callNote(item: Extract<Item, { type: "mcp_call" }>): string {
  return `- ${item.name} ${item.arguments}: ${item.error ?? item.output ?? ""}`;
}

function sessionOf(raw: Json | undefined): AgentSession | undefined {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) return undefined;
  const { session, cwd, count, covers, prompts = 0 } = raw as JsonObject;
  const named = typeof session === "string" && typeof cwd === "string" && typeof covers === "string";
  const counted = typeof count === "number" && typeof prompts === "number";
  return named && counted ? { session, cwd, count, covers, prompts } : undefined;
}

// ---- the path as text

function transcript(path: readonly Told[]): PromptPart[] {
  const lastSaid = path.findLastIndex(({ entry: { item } }) => !isAsked(item));
  const now = path.slice(lastSaid + 1).flatMap(({ entry }) => partsOf(entry.item));
  const before = path.slice(0, lastSaid + 1).flatMap(({ entry }) => said(entry));
  if (before.length === 0) return now;
  const texts = before.flatMap((part) => (part.type === "text" ? part.text : []));
  const images = before.filter((part) => part.type === "image");
  const head = `You take over a conversation. This is what was said and done so far:\n\n<conversation>\n${texts.join("\n")}\n</conversation>\n\n`;
  const [first, ...rest] = now;
  const then = first ? "The user says now:\n\n" : "Go on where it stopped.";
  if (first?.type === "text") return [...images, { type: "text", text: `${head}${then}${first.text}` }, ...rest];
  return [...images, { type: "text", text: head + then }, ...now];
}

/** What somebody asks for, and not what was answered or done. */
function isAsked(item: Item): boolean {
  return (item.type === "message" && item.role !== "assistant") || item.type === "function_call_output";
}

function said(entry: Entry): PromptPart[] {
  const { item } = entry;
  const text = (value: string): PromptPart[] => [{ type: "text", text: value }];
  switch (item.type) {
    case "message": {
      const parts = partsOf(item);
      const words = parts.flatMap((part) => (part.type === "text" ? part.text : "[image]")).join("\n");
      return [...parts.filter((part) => part.type === "image"), ...text(`<${item.role}>\n${words}\n</${item.role}>`)];
    }
    case "mcp_call": {
      const outcome = item.output || item.error || "interrupted, outcome unknown";
      const name = entry.meta.tool ?? item.name;
      return text(
        `<tool_call name=${JSON.stringify(name)}>\n${item.arguments}\n</tool_call>\n<tool_result>\n${outcome}\n</tool_result>`,
      );
    }
    case "function_call":
      return text(`<tool_call name=${JSON.stringify(item.name)}>\n${item.arguments}\n</tool_call>`);
    case "function_call_output":
      return text(`<tool_result>\n${item.output}\n</tool_result>`);
    case "compaction":
      return text(`<summary>\n${item.summary}\n</summary>`);
    default:
      return [];
  }
}

function partsOf(item: Item): PromptPart[] {
  if (item.type === "function_call_output")
    return [{ type: "text", text: `<tool_result>\n${item.output}\n</tool_result>` }];
  return item.type === "message" ? contentOf(item) : [];
}

function contentOf({ content }: MessageItem): PromptPart[] {
  return content.flatMap((part): PromptPart[] => {
    if (part.type === "input_image") return [{ type: "image", url: part.image_url }];
    const text = (part.type === "input_file" ? textOfFile(part) : undefined) ?? textOfPart(part);
    return text === "" ? [] : [{ type: "text", text }];
  });
}
