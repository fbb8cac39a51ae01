/** Plain JSON. Everything that is stored, sent or shown is made of these. */

export type Json = null | boolean | number | string | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json | undefined;
}

/** A JSON Schema (2020-12) as it came from a tool or a client: never trusted, never dereferenced. */
export type JsonSchema = JsonObject;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
