/**
 * Custom tools: tools of the client that take free text instead of arguments.
 *
 * Invariant: to the engine and to every model such a tool is a function with one text, `input`; to the client its
 * calls have no arguments but this text. Each piece of the arguments is one piece of the text, so that the events of
 * a stream keep their numbers.
 */
import type { Json, JsonObject } from "../../types/json.ts";
import type { ClientTool, RunSettings } from "../../types/response.ts";
import { parseBounded } from "../../util/limits.ts";

const PARAMETERS = {
  type: "object",
  properties: { input: { type: "string", description: "The whole input of the tool, as plain text." } },
  required: ["input"],
  additionalProperties: false,
};

/** What the model is offered. `tool` has `description` and `format`, in the words of either OpenAI API. */
export function customTool(name: string, tool: Record<string, unknown>): ClientTool {
  const { description, format } = tool;
  const told = [typeof description === "string" ? description : "", formatText(format)].filter((text) => text !== "");
  return {
    name,
    ...(told.length > 0 && { description: told.join("\n\n") }),
    parameters: PARAMETERS,
    wire: { custom: true },
  };
}

/** No endpoint of ours holds a model to a grammar, so the model is told of it. */
function formatText(format: unknown): string {
  if (typeof format !== "object" || format === null) return "";
  const given = format as Record<string, unknown>;
  const grammar = (given.grammar ?? given) as Record<string, unknown>;
  const { syntax, definition } = grammar;
  if (given.type !== "grammar" || typeof definition !== "string") return "";
  return `The input must follow this grammar (${typeof syntax === "string" ? syntax : "lark"}):\n${definition}`;
}

/** Characters of arguments that are looked into. */
const LONGEST = 10_485_760;

export function hasCustomTools({ clientTools = [] }: RunSettings): boolean {
  return clientTools.some(({ wire }) => wire?.custom);
}

/** A client's text as the arguments of the function. */
export function customArguments(input: Json | undefined): string {
  return JSON.stringify({ input: typeof input === "string" ? input : JSON.stringify(input ?? "") });
}

/** The text in the arguments; all of them, where the model has not kept to the form. */
export function customInput(written: string): string {
  try {
    const { input } = parseBounded(written, LONGEST) as JsonObject;
    return typeof input === "string" ? input : written;
  } catch {
    return written;
  }
}

const BEGINNING = /^\s*\{\s*"input"\s*:\s*"/;
/** Characters in which the beginning must have come. */
const BEGINNING_LIMIT = 64;

/** Reads the text out of arguments that come piece by piece. */
export class InputReader {
  /** "waiting": for the text to begin; "whole": it is not in the form, and told as it is; "over": nothing more to tell. */
  #state: "waiting" | "inside" | "whole" | "over" = "waiting";
  /** What has come and cannot be told yet. */
  #held = "";

  /** What of the text this piece adds; may be empty. */
  add(piece: string): string {
    if (this.#state === "over") return "";
    if (this.#state === "whole") return piece;
    this.#held += piece;
    if (this.#state === "waiting") {
      const begun = BEGINNING.exec(this.#held);
      if (!begun) return this.#strange();
      this.#held = this.#held.slice(begun[0].length);
      this.#state = "inside";
    }
    return this.#inside();
  }

  #strange(): string {
    const begins = this.#held.trimStart();
    if (begins === "" || (begins.startsWith("{") && this.#held.length < BEGINNING_LIMIT)) return "";
    this.#state = "whole";
    const held = this.#held;
    this.#held = "";
    return held;
  }

  #inside(): string {
    const text = this.#held;
    const { end, over } = lastWhole(text);
    this.#held = over ? "" : text.slice(end);
    if (over) this.#state = "over";
    return decoded(text.slice(0, end));
  }
}

/** How far a text inside quotes can be decoded, and whether the quote that ends it has come. */
function lastWhole(text: string): { end: number; over: boolean } {
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === '"') return { end: at, over: true };
    if (character !== "\\") {
      at++;
      continue;
    }
    const length = text[at + 1] === "u" ? escapeLength(text.slice(at, at + 12)) : 2;
    if (at + length > text.length) return { end: at, over: false };
    at += length;
  }
  return { end: at, over: false };
}

/** Of a `\u` escape; of two, where they make (or may yet make) one character. */
function escapeLength(text: string): number {
  return /^\\u[dD][89abAB]/.test(text) && "\\u".startsWith(text.slice(6, 8)) ? 12 : 6;
}

function decoded(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}
