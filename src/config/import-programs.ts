/**
 * MCP servers as Codex, opencode, Zed and Gemini's command line write them → the `mcpServers` that the others use.
 *
 * Invariant: nothing is expanded here: a reference to a variable stays one, in our own form.
 */
import type { Json, JsonObject } from "../types/json.ts";
import { escapeReferences, isObject, mapTexts } from "./import-servers.ts";

/** Undefined: the file is of none of these programs. */
export function serversOfPrograms(raw: JsonObject): { program: string; servers: JsonObject } | undefined {
  if (isObject(raw.mcp_servers)) return { program: "Codex", servers: mapEntries(raw.mcp_servers, fromCodex) };
  if (isOpencode(raw.mcp)) return { program: "opencode", servers: mapEntries(raw.mcp, fromOpencode) };
  if (isObject(raw.context_servers)) return { program: "Zed", servers: mapEntries(raw.context_servers, fromZed) };
  return undefined;
}

function mapEntries(map: JsonObject, change: (entry: JsonObject) => JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(map).map(([name, entry]) => [name, isObject(entry) ? change(entry) : entry]),
  );
}

function isOpencode(value: Json | undefined): value is JsonObject {
  if (!isObject(value)) return false;
  return Object.values(value).some((entry) => isObject(entry) && (entry.type === "local" || entry.type === "remote"));
}

/** `[mcp_servers.NAME]`: no references but the names of variables that stand for a token or a header. */
function fromCodex(entry: JsonObject): JsonObject {
  const { bearer_token_env_var: token, env_http_headers: fromEnvironment, http_headers: fixed, ...rest } = entry;
  const headers: JsonObject = { ...(isObject(fixed) && (escapeReferences(fixed) as JsonObject)) };
  if (typeof token === "string") headers.Authorization = `Bearer \${${token}}`;
  if (isObject(fromEnvironment)) {
    for (const [name, variable] of Object.entries(fromEnvironment)) headers[name] = `\${${String(variable)}}`;
  }
  const server = escapeReferences(rest) as JsonObject;
  return Object.keys(headers).length > 0 ? { ...server, headers } : server;
}

/** `{env:NAME}` is its form of a reference, and a dollar sign none. */
function fromOpencode({ type, command, environment, timeout: _ours, ...rest }: JsonObject): JsonObject {
  const [program, ...args] = Array.isArray(command) ? command : [command ?? null];
  const server: JsonObject = type === "local" ? { ...rest, command: program ?? null, args } : { ...rest, type: "http" };
  if (isObject(environment)) server.env = environment;
  return mapTexts(escapeReferences(server), (text) => text.replace(/\{env:(\w+)\}/g, "$${$1}")) as JsonObject;
}

/** Its older form has the command in an object of its own. */
function fromZed({ command, source: _source, ...rest }: JsonObject): JsonObject {
  if (!isObject(command)) return escapeReferences({ ...rest, ...(command !== undefined && { command }) }) as JsonObject;
  const { path, args, env } = command;
  return escapeReferences({
    ...rest,
    command: path ?? null,
    ...(args !== undefined && { args }),
    ...(env !== undefined && { env }),
  }) as JsonObject;
}
