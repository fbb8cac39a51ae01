/**
 * SpeakMCP's conversations (parity S20–S22) → turns.
 *
 * Invariant: nothing is invented: what a file holds is in the turns, in its order, but for the copies of the old
 * history that SpeakMCP appended to it (promise 18), and those only where they cannot be anything else.
 */
import type { ImportedConversation, ImportedPart, ImportedTurn } from "../types/app.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { isObject } from "./import-servers.ts";

interface Message {
  role: "user" | "assistant" | "tool";
  content: string;
  /** Milliseconds since the epoch; undefined where it is not said. */
  at: number | undefined;
  calls: { name: string; input: Json }[];
  results: { text: string; failed: boolean }[];
}

const MAX_MESSAGES = 50_000;
/** Milliseconds: a copy was written message by message, without a model or a person in between. */
const COPY_PACE = 250;

export function isConversation(value: Json): boolean {
  return isObject(value) && typeof value.id === "string" && Array.isArray(value.messages);
}

/** A conversation's file; why it cannot be read, as text. `folded` counts the messages that were copies. */
export function readConversation(value: JsonObject): { conversation: ImportedConversation; folded: number } | string {
  const { id, title, messages } = value;
  if (typeof id !== "string" || !Array.isArray(messages)) return "it has no id or no messages";
  if (messages.length > MAX_MESSAGES) return `it has more than ${MAX_MESSAGES} messages`;
  const read = messages.map(readMessage);
  const wrong = read.indexOf(undefined);
  if (wrong >= 0) return `its message ${wrong} has no role or no text`;
  const all = read.filter((message) => message !== undefined);
  const kept = withoutCopies(all);
  if (kept.length === 0) return "it is empty";
  const createdAt = time(value.createdAt) ?? all[0]?.at ?? 0;
  const updatedAt = time(value.updatedAt) ?? all.at(-1)?.at ?? createdAt;
  const conversation: ImportedConversation = {
    sourceId: id,
    title: typeof title === "string" && title.trim() !== "" ? title : (kept[0]?.content.slice(0, 80) ?? ""),
    createdAt,
    updatedAt: Math.max(createdAt, updatedAt),
    turns: turnsOf(kept, createdAt),
  };
  return { conversation, folded: all.length - kept.length };
}

function readMessage(value: Json): Message | undefined {
  if (!isObject(value)) return undefined;
  const { role, content } = value;
  if ((role !== "user" && role !== "assistant" && role !== "tool") || typeof content !== "string") return undefined;
  const calls = list(value.toolCalls).map((call) => ({ name: String(call.name ?? ""), input: call.arguments ?? {} }));
  const results = list(value.toolResults).map((result) => ({
    text: textOf(result.content) || (typeof result.error === "string" ? result.error : ""),
    failed: result.success === false || result.isError === true,
  }));
  return { role, content, at: time(value.timestamp), calls, results };
}

function list(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** A text, or MCP's list of blocks. */
function textOf(content: Json | undefined): string {
  if (typeof content === "string") return content;
  return list(content)
    .map((block) => (typeof block.text === "string" ? block.text : ""))
    .join("\n");
}

function time(value: Json | undefined): number | undefined {
  const number = typeof value === "string" ? Date.parse(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number > 0 ? number : undefined;
}

/**
 * SpeakMCP's server appended to the file, at each turn after the first, the whole of it once more (but for messages
 * with the words of the new question) and then the new answer; the question itself it did not keep. What is dropped
 * here equals all that stands before it, word for word, was written in one go, and is followed by an answer.
 */
function withoutCopies(messages: readonly Message[]): Message[] {
  const kept: Message[] = [];
  for (let at = 0; at < messages.length; ) {
    const copy = copyAt(messages, at);
    if (copy) {
      if (copy.question) kept.push({ ...copy.question, at: messages[at]?.at });
      at += copy.length;
    }
    const message = messages[at];
    if (message) kept.push(message);
    at++;
  }
  return kept;
}

function copyAt(
  messages: readonly Message[],
  at: number,
): { length: number; question: Message | undefined } | undefined {
  const [first, next] = [messages[0], messages[at]];
  if (at < 2 || !first || !next) return undefined;
  // Most messages begin no copy: seen at once, without comparing everything.
  const second = messages.find(({ role, content }) => role !== "user" || content !== first.content);
  if (!same(first, next) && !(second && same(second, next))) return undefined;
  const before = messages.slice(0, at);
  if (!before.some(({ role }) => role === "assistant")) return undefined;
  const questions = [...new Set(before.filter(({ role }) => role === "user").map(({ content }) => content))];
  for (const question of [undefined, ...questions]) {
    const candidate = before.filter(({ role, content }) => role !== "user" || content !== question);
    const [start] = candidate;
    if (!start || candidate.length < 2 || !same(start, next)) continue;
    if (
      candidate.every((message, offset) => same(message, messages[at + offset])) &&
      inOneGo(messages, at, candidate.length)
    ) {
      return {
        length: candidate.length,
        question: before.find((one) => one.role === "user" && one.content === question),
      };
    }
  }
  return undefined;
}

function same(one: Message, other: Message | undefined): boolean {
  return other !== undefined && one.role === other.role && one.content === other.content;
}

/** The copy and the first message behind it, which must be an answer, were written one right after the other. */
function inOneGo(messages: readonly Message[], from: number, length: number): boolean {
  const answer = messages[from + length];
  if (!answer || answer.role === "user") return false;
  for (let at = from; at < from + length; at++) {
    const [now, next] = [messages[at]?.at, messages[at + 1]?.at];
    if (now === undefined || next === undefined || next < now || next - now > COPY_PACE) return false;
  }
  return true;
}

/** Each user message begins a turn. */
function turnsOf(messages: readonly Message[], createdAt: number): ImportedTurn[] {
  const turns: ImportedTurn[] = [];
  /** Calls whose results come with a later message. */
  let open: Extract<ImportedPart, { kind: "call" }>[] = [];
  let clock = createdAt;
  for (const message of messages) {
    clock = Math.max(clock, message.at ?? clock);
    let turn = turns.at(-1);
    if (message.role === "user" || !turn) {
      open = [];
      turn = { prompt: message.role === "user" ? message.content : null, at: clock, endedAt: clock, parts: [] };
      turns.push(turn);
      if (message.role === "user") continue;
    }
    turn.endedAt = clock;
    if (message.role === "assistant" && message.content.trim() !== "") {
      turn.parts.push({ kind: "text", text: message.content });
    }
    const begun = message.calls.map(callOf);
    turn.parts.push(...begun);
    open.push(...begun);
    const unmatched = message.results.filter((result) => !takeResult(open, result));
    // A tool message without a call that it belongs to is a text of its own.
    const tells = message.role === "tool" && (message.results.length === 0 || unmatched.length > 0);
    if (tells && message.content.trim() !== "") turn.parts.push({ kind: "text", text: message.content });
  }
  for (const { parts } of turns) for (const part of parts) closeCall(part);
  return turns;
}

function callOf({ name, input }: Message["calls"][number]): Extract<ImportedPart, { kind: "call" }> {
  const at = name.indexOf(":");
  const [server, tool] = at < 1 ? ["speakmcp", name] : [name.slice(0, at), name.slice(at + 1)];
  return { kind: "call", server, tool, input, output: "", error: OPEN };
}

const OPEN = "(open)";

function takeResult(open: Extract<ImportedPart, { kind: "call" }>[], result: Message["results"][number]): boolean {
  const call = open.shift();
  if (!call) return false;
  call.output = result.text;
  call.error = result.failed ? result.text || "it failed" : null;
  return true;
}

function closeCall(part: ImportedPart): void {
  if (part.kind === "call" && part.error === OPEN) part.error = "its result was not kept";
}
