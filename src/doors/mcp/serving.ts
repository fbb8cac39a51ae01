/** Serving: what an endpoint, its sessions and the maker of a server say to each other. */
import type { McpServer, Server } from "@modelcontextprotocol/server";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { McpCaller } from "../../types/mcp.ts";

/** A client, as it has said it of itself. */
export interface Client {
  name: string;
  version: string;
  protocolVersion: string;
  capabilities: JsonObject;
}

/** Undefined where the body is not (only) an `initialize`. */
export function clientOf(body: unknown): Client | undefined {
  if (!isJsonObject(body) || body.method !== "initialize" || !isJsonObject(body.params)) return undefined;
  const { clientInfo, protocolVersion, capabilities } = body.params;
  const { name, version } = isJsonObject(clientInfo) ? clientInfo : {};
  return {
    name: String(name ?? "").slice(0, 100),
    version: String(version ?? "").slice(0, 50),
    protocolVersion: String(protocolVersion ?? "").slice(0, 20),
    capabilities: isJsonObject(capabilities) ? capabilities : {},
  };
}

/** What the factory of a server is told. */
export interface Serving {
  era: "legacy" | "modern";
  caller: McpCaller;
  /** The client that calls: of the modern protocol each request says it itself. */
  client: Client | undefined;
}

export type Factory = (serving: Serving) => McpServer | Server | Promise<McpServer | Server>;

export function refusal(status: number, code: number, message: string, headers: Record<string, string> = {}): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status, headers });
}
