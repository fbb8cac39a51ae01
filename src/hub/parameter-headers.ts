/**
 * Parameter headers: parameters of a tool that go as HTTP headers, too (`x-mcp-header`, MCP 2026-07-28).
 *
 * Invariant: only what `checkHeaders` has found sound is here: declarations on primitive properties that are reached
 * through `properties` alone. What is absent or null has no header.
 */
import type { Json, JsonObject } from "../types/json.ts";
import { isObject } from "./definitions.ts";

const PLAIN = /^(?!=\?base64\?.*\?=$)[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

export function parameterHeaders(schema: JsonObject, input: JsonObject): Record<string, string> {
  const headers: Record<string, string> = {};
  if (!isObject(schema.properties)) return headers;
  for (const [key, property] of Object.entries(schema.properties)) {
    if (!isObject(property)) continue;
    const value = Object.hasOwn(input, key) ? input[key] : undefined;
    const name = property["x-mcp-header"];
    const text = typeof name === "string" ? written(value) : undefined;
    if (text !== undefined) headers[`Mcp-Param-${String(name)}`] = text;
    if (isObject(value)) Object.assign(headers, parameterHeaders(property, value));
  }
  return headers;
}

function written(value: Json | undefined): string | undefined {
  if (typeof value === "boolean") return String(value);
  if (typeof value === "number")
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
      ? String(value)
      : undefined;
  if (typeof value !== "string") return undefined;
  return PLAIN.test(value) ? value : `=?base64?${Buffer.from(value).toString("base64")}?=`;
}
