/**
 * recall: what a compaction keeps from the model, found by its words and read in pieces.
 *
 * Invariant: only items of the conversation's own path are read; the model's words never run as a regular expression;
 * an answer is bounded, whatever is asked.
 */
import { setImmediate } from "node:timers/promises";
import type { Entry, Item } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import type { Tool, ToolContext, ToolResult } from "../types/tool.ts";
import { textOfPart } from "./content-text.ts";
import { shortId } from "./ids.ts";
import { oneLine } from "./text.ts";

export const RECALL = "recall";

const MAX_HITS = 20;
const MAX_QUERY = 500;
/** Characters around a hit. */
const AROUND = 160;
/** Characters of one piece of an item. */
const PIECE = 6_000;
/** Characters that are searched without letting others go on. */
const AT_ONCE = 2_000_000;

export const recallTool: Tool = {
  name: RECALL,
  server: "rotunda",
  serverName: RECALL,
  description:
    "Finds and reads older messages and tool results of this conversation that are now only summed up. Give words to find (query), or the id of an item to read it in pieces (item, and from: the first character).",
  access: "read",
  repeatable: true,
  parallel: true,
  input: {
    type: "object",
    properties: {
      query: {
        type: "string",
        description: "Words that must all stand in an item (plain text; case does not matter).",
      },
      item: { type: "string", description: "Id of an item, as a search gives it." },
      from: { type: "integer", minimum: 0, description: "First character of the item to read. Default 0." },
    },
    additionalProperties: false,
  },
  run,
};

async function run(input: JsonObject, context: ToolContext): Promise<ToolResult> {
  const entries = (await context.recall?.()) ?? [];
  if (entries.length === 0) return { text: "Nothing of this conversation was left out." };
  const { query, item, from } = input;
  if (typeof item === "string" && item !== "") return read(entries, item, typeof from === "number" ? from : 0);
  if (typeof query === "string" && query.trim() !== "") return find(entries, query.slice(0, MAX_QUERY), context.signal);
  return { text: "Give words to find (query), or the id of an item (item).", isError: true };
}

function read(entries: readonly Entry[], reference: string, from: number): ToolResult {
  const found =
    reference.length < 4 ? [] : entries.filter(({ item: { id } }) => id === reference || id.endsWith(reference));
  const [entry] = found;
  if (!entry || found.length > 1)
    return { text: `no older item has the id "${oneLine(reference, 40)}"`, isError: true };
  const text = textOf(entry.item);
  const start = Math.min(Math.max(0, Math.floor(from)), text.length);
  const end = Math.min(start + PIECE, text.length);
  const more = end < text.length ? `\n[go on with from: ${end}]` : "";
  return {
    text: `${nameOf(entry)}, characters ${start} to ${end} of ${text.length}:\n${text.slice(start, end)}${more}`,
  };
}

/** The whole phrase first, then items that hold every word of it; the newest first. */
async function find(entries: readonly Entry[], query: string, signal: AbortSignal): Promise<ToolResult> {
  const phrase = query.trim().toLowerCase();
  const words = [...new Set(phrase.split(/\s+/))];
  const whole: string[] = [];
  const partly: string[] = [];
  let searched = 0;
  for (const entry of entries.toReversed()) {
    const text = textOf(entry.item);
    searched += text.length;
    if (searched > AT_ONCE) {
      searched = 0;
      await setImmediate();
      signal.throwIfAborted();
    }
    const lower = text.toLowerCase();
    const at = lower.indexOf(phrase);
    if (at >= 0) whole.push(hitOf(entry, text, at));
    else if (words.every((word) => lower.includes(word)))
      partly.push(hitOf(entry, text, lower.indexOf(words[0] ?? "")));
    if (whole.length >= MAX_HITS) break;
  }
  const hits = [...whole, ...partly].slice(0, MAX_HITS);
  if (hits.length === 0) return { text: `No matches found in ${entries.length} older items` };
  const how = `Read one with recall {"item": "…"}.`;
  return { text: `${hits.length} of ${entries.length} older items fit, the newest first. ${how}\n${hits.join("\n")}` };
}

function hitOf(entry: Entry, text: string, at: number): string {
  const start = Math.max(0, at - AROUND / 2);
  const piece = oneLine(text.slice(start, start + 2 * AROUND), 2 * AROUND);
  return `- ${nameOf(entry)}: ${start > 0 ? "…" : ""}${piece}`;
}

function nameOf({ item, meta }: Entry): string {
  const id = shortId(item.id);
  if (item.type === "message") return `${id} ${item.role}`;
  if (item.type === "mcp_call") return `${id} call of ${meta.tool ?? item.name}`;
  return `${id} ${item.type.replaceAll("_", " ")}`;
}

function textOf(item: Item): string {
  switch (item.type) {
    case "message":
      return item.content.map(textOfPart).join("\n");
    case "reasoning":
      return item.content.map(({ text }) => text).join("\n");
    case "mcp_call":
      return `${item.arguments}\n${item.output ?? item.error ?? ""}`;
    case "function_call":
      return `${item.name} ${item.arguments}`;
    case "function_call_output":
      return item.output;
    case "compaction":
      return item.summary;
    default:
      return "";
  }
}
