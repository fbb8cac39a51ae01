/**
 * Plain calls: calls of tools in the protocol of 2026-07-28 that want nothing but their answer.
 *
 * Invariant: only what is right in every respect is taken, so that the library's own checks would have nothing to say;
 * all else goes its way. Most calls are of this kind, and the library's way costs as much as all the rest of the gateway.
 */
import type { ServerContext } from "@modelcontextprotocol/server";
import { GatewayError } from "../../types/gateway.ts";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { McpRequest } from "../../types/mcp.ts";

const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol";
const MISSING_CAPABILITY = -32_021;

/** Members of `_meta` that a plain call may have. */
const PLAIN_META = new Set([`${META}/protocolVersion`, `${META}/clientInfo`, `${META}/clientCapabilities`]);

export interface PlainCall {
  id: string | number;
  params: JsonObject;
  context: ServerContext;
}

/** Undefined: it is not one. */
export function plainCallOf({ method, headers, body, signal }: McpRequest): PlainCall | undefined {
  if (method !== "POST" || headers.get("mcp-protocol-version") !== VERSION || !isJsonObject(body)) return undefined;
  const { jsonrpc, id, params } = body;
  if (jsonrpc !== "2.0" || body.method !== "tools/call" || headers.get("mcp-method") !== "tools/call") return undefined;
  if (typeof id !== "string" && !Number.isSafeInteger(id)) return undefined;
  if (!isJsonObject(params) || typeof params.name !== "string" || headers.get("mcp-name") !== params.name)
    return undefined;
  const { _meta: envelope, arguments: input, inputResponses, requestState, ...rest } = params;
  if (!isJsonObject(envelope) || !Object.keys(envelope).every((key) => PLAIN_META.has(key))) return undefined;
  if (input !== undefined && !isJsonObject(input)) return undefined;
  if (inputResponses !== undefined || requestState !== undefined || !isAccepted(headers)) return undefined;
  const info = envelope[`${META}/clientInfo`];
  const named = isJsonObject(info) && typeof info.name === "string" && typeof info.version === "string";
  if (envelope[`${META}/protocolVersion`] !== VERSION || (info !== undefined && !named)) return undefined;
  if (!isJsonObject(envelope[`${META}/clientCapabilities`])) return undefined;
  const plain = { ...rest, ...(input !== undefined && { arguments: input }) };
  return { id: id as string | number, params: plain, context: contextOf(envelope, signal) };
}

function isAccepted(headers: Headers): boolean {
  const accept = headers.get("accept") ?? "";
  const type = headers.get("content-type") ?? "";
  return (
    accept.includes("application/json") && accept.includes("text/event-stream") && type.startsWith("application/json")
  );
}

/** It has asked to be told of nothing, and can be asked only by its result. */
function contextOf(envelope: JsonObject, signal: AbortSignal): ServerContext {
  const requestState = () => undefined;
  return { mcpReq: { envelope, signal, requestState, notify: async () => undefined } } as unknown as ServerContext;
}

/** The answer as the library would write it. */
export async function answerPlain(
  id: string | number,
  server: JsonObject,
  work: Promise<JsonObject>,
): Promise<Response> {
  try {
    const { _meta: meta, ...result } = await work;
    const stamped = { [`${META}/serverInfo`]: server, ...(isJsonObject(meta) ? meta : {}) };
    return Response.json({ jsonrpc: "2.0", id, result: { resultType: "complete", ...result, _meta: stamped } });
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const { code, message, data } = error;
    const status = code === MISSING_CAPABILITY ? 400 : 200;
    return Response.json(
      { jsonrpc: "2.0", id, error: { code, message, ...(data !== undefined && { data }) } },
      { status },
    );
  }
}
