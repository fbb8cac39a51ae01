/**
 * MCP servers in the shapes of other programs → the shape of rotunda.yaml's `mcpServers`.
 *
 * Invariant: nothing is expanded here: a reference to a variable stays one, so no value of the environment enters.
 */
import type { Json, JsonObject } from "../types/json.ts";

export type ConvertedServer = { server: JsonObject; lost: string[] } | { why: string };

/** An entry of `mcpServers` (Claude Desktop, Cursor, SpeakMCP). SpeakMCP's `timeout` is in milliseconds. */
export function convertServer(entry: Json | undefined, milliseconds: boolean): ConvertedServer {
  if (!isObject(entry)) return { why: "it is not an object" };
  const kind = String(entry.transport ?? entry.type ?? "");
  if (/^(?:websocket|sse)$/i.test(kind)) return { why: `its transport ${kind} is not supported; use stdio or http` };
  const url = entry.url ?? entry.serverUrl ?? entry.httpUrl;
  const remote = typeof url === "string" && url !== "";
  if (!remote && (typeof entry.command !== "string" || entry.command === "")) {
    return { why: "it has neither a command nor a url" };
  }
  const server: JsonObject = remote ? { url: url as string } : { command: entry.command };
  if (!remote && Array.isArray(entry.args)) server.args = entry.args.map(String);
  if (!remote && hasMembers(entry.env)) server.env = texts(entry.env);
  if (!remote && typeof entry.cwd === "string") server.cwd = entry.cwd;
  if (remote && hasMembers(entry.headers)) server.headers = texts(entry.headers);
  const seconds = typeof entry.timeout === "number" && entry.timeout > 0 ? entry.timeout : undefined;
  if (seconds !== undefined) server.timeout = milliseconds ? Math.max(1, Math.round(seconds / 1000)) : seconds;
  if (entry.disabled === true || entry.enabled === false) server.disabled = true;
  const loggedIn = hasMembers(entry.oauth) || entry.oauth === true;
  if (remote && hasMembers(entry.oauth)) {
    const { clientId, clientSecret, scope } = entry.oauth;
    const oauth = Object.entries({ clientId, clientSecret, scope }).filter(([, value]) => isFilled(value));
    if (oauth.length > 0) server.oauth = Object.fromEntries(oauth) as JsonObject;
  }
  return { server, lost: loggedIn ? ["the tokens of its login: rotunda hub login makes new ones"] : [] };
}

function hasMembers(value: Json | undefined): value is JsonObject {
  return isObject(value) && Object.keys(value).length > 0;
}

function isFilled(value: Json | undefined): value is string {
  return typeof value === "string" && value !== "";
}

function texts(map: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, String(value)]));
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The same value where `$` begins a reference: every dollar sign stands for itself. */
export function escapeReferences(value: Json | undefined): Json {
  return mapTexts(value, (text) => text.replaceAll("$", "$$$$"));
}

/** A copy with every text in it replaced. */
export function mapTexts(value: Json | undefined, change: (text: string) => string): Json {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((entry) => mapTexts(entry, change));
  if (!isObject(value)) return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, mapTexts(entry, change)]));
}
