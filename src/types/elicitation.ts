/**
 * Elicitation: an MCP server's question to a person, in the middle of a call.
 *
 * Invariant: it is answered at most once; what nobody answers in time counts as `cancel`. A link is shown and
 * never opened by us.
 */
import type { JsonObject, JsonSchema } from "./json.ts";

export interface Elicitation {
  id: string;
  /** Name of the server that asks. */
  server: string;
  mode: "form" | "url";
  /** With every invisible character shown. */
  message: string;
  /** Of a form: an object of primitive properties; null of a link. */
  requestedSchema: JsonSchema | null;
  /** Of a link: an http(s) address, for a person to open. */
  url: string | null;
  /** Milliseconds since the epoch. */
  createdAt: number;
  expiresAt: number;
  /**
   * Responses whose calls were under way at the server when it asked: it is for one of them, and often there is only
   * one. The empty text stands for a call without a response.
   */
  responseIds?: string[];
}

export interface ElicitationAnswer {
  action: "accept" | "decline" | "cancel";
  /** With `accept` of a form: what fits its schema. */
  content?: JsonObject;
}
