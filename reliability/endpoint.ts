/**
 * The model of the suite: what it does is said by the last question, as JSON (`Wish`).
 *
 * Invariant: an answer is a function of the request alone, so that a run that is resumed at any step, in any process,
 * meets the same model.
 */
import { startUpstream, type Upstream, type UpstreamRequest, type UpstreamStep } from "../src/testing/upstream.ts";
import type { JsonObject } from "../src/types/json.ts";

export interface Wish {
  /** Calls, one in each answer: the tool and its arguments. */
  calls?: [name: string, input: JsonObject][];
  /** Words of the last answer. Default 3. */
  words?: number;
  /** Milliseconds before each of its words. Default 0. */
  delay?: number;
  /** Milliseconds before each answer. Default 0. */
  latency?: number;
}

/** The text that says a wish. */
export function question(wish: Wish): string {
  return `do ${JSON.stringify(wish)} please`;
}

/** The last answer to a wish. */
export function answerTo({ words = 3 }: Wish): string {
  return wordsOf(words).join("");
}

function wordsOf(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `word${index} `);
}

interface Message {
  role: string;
  content: unknown;
  tool_calls?: unknown[];
}

export function stepFor({ body }: Pick<UpstreamRequest, "body">): UpstreamStep {
  const { messages } = body as unknown as { messages: Message[] };
  const asked = messages.findLastIndex(
    ({ role, content }) => role === "user" && JSON.stringify(content).includes("do "),
  );
  const text = textOf(messages[asked]?.content);
  const wish = JSON.parse(lastWish(text)) as Wish;
  const called = messages.slice(asked).filter(({ tool_calls: calls }) => (calls?.length ?? 0) > 0).length;
  const call = wish.calls?.[called];
  const { latency = 0, delay = 0, words = 3 } = wish;
  if (call) return { calls: [{ name: call[0], arguments: call[1] }], latency };
  return { text: wordsOf(words), delay, latency };
}

/** Questions that nothing stands between are shown to a model as one; and one wish may hold another, for a sub-agent. */
function lastWish(text: string): string {
  let last = "{}";
  for (let at = text.indexOf("do {"); at >= 0; ) {
    const end = endOfObject(text, at + 3);
    const isWish = text.startsWith(" please", end);
    if (isWish) last = text.slice(at + 3, end);
    at = text.indexOf("do {", isWish ? end : at + 1);
  }
  return last;
}

/** Behind the closing brace of the object that begins at `start`. */
function endOfObject(text: string, start: number): number {
  let depth = 0;
  let inString = false;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === "\\") at++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "{") depth++;
    else if (character === "}" && --depth === 0) return at + 1;
  }
  return text.length;
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as { text?: string }[]).map(({ text = "" }) => text).join("");
}

export function startEndpoint(): Promise<Upstream> {
  return startUpstream(stepFor);
}
