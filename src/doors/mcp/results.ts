/** Results of tools: a text for the model, and the same as structured content. */
import type { InputRequiredResult } from "@modelcontextprotocol/server";
import { toRotundaError } from "../../types/error.ts";
import type { JsonObject } from "../../types/json.ts";

export interface Result {
  [key: string]: unknown;
  content: { type: "text"; text: string }[];
  structuredContent?: JsonObject;
  isError?: boolean;
}

export type Answer = Result | InputRequiredResult;

export function say(text: string, structured?: object): Result {
  const content = [{ type: "text" as const, text }];
  return structured ? { content, structuredContent: JSON.parse(JSON.stringify(structured)) } : { content };
}

export function fail(text: string, structured?: object): Result {
  return { ...say(text, structured), isError: true };
}

/** The text of a failure, as the bridge and Polybrain began theirs. */
export function errorText(thrown: unknown, redact: (text: string) => string = (text) => text): string {
  const { message, remedy } = toRotundaError(thrown);
  return redact(`Error: ${message}${remedy === undefined ? "" : `\n${remedy}`}`);
}
