/**
 * The gateway: all servers of the hub, or those of a profile, as one server of MCP.
 *
 * Invariant: it holds no connection of its own; a client that leaves takes its calls and subscriptions with it and
 * nothing else; news of a server reach every client that listens.
 */
import { createRequestStateCodec, Server, type ServerContext } from "@modelcontextprotocol/server";
import type { App } from "../../types/app.ts";
import type { Gateway, GatewayCaller, GatewayNews } from "../../types/gateway.ts";
import { GatewayError } from "../../types/gateway.ts";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { McpRequest } from "../../types/mcp.ts";
import { Endpoint } from "./endpoint.ts";
import { Catalog } from "./gateway-catalog.ts";
import { type ExchangeOptions, Held, leastOf } from "./gateway-exchange.ts";
import { Outputs } from "./gateway-outputs.ts";
import { GatewaySession, type GatewayState } from "./gateway-session.ts";
import type { Serving } from "./serving.ts";

export interface GatewayOptions {
  app: App;
  /** Its servers and tools alone. */
  profile: string | undefined;
  version: string;
  /** At least 32 bytes. */
  key: Uint8Array;
  onerror?: (error: Error) => void;
}

const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
const INVALID_PARAMS = -32_602;
/** Seconds that a question may stay unanswered. */
const STATE_KEPT = 3_600;
/** Milliseconds over which news of the same kind are one. */
const NEWS_TOGETHER = 50;
/** Least severe level for those who have named none, once somebody else has named one. */
const USUAL_LEVEL = "info";

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
};

const INSTRUCTIONS = "The MCP servers that are configured here, as one: what a name begins with is its server.";

/** The parameters of a request, whatever they are. */
const anyParams = {
  "~standard": { version: 1, vendor: "rotunda", validate: (value: unknown) => ({ value: value as JsonObject }) },
} as const;

/** Hands on what servers answer without looking at it. */
class PlainServer extends Server {
  protected override _wrapHandler: Server["_wrapHandler"] = (_method, handler) => handler;
}

/** A client with a session. */
interface Listener {
  server: Server;
  level: string | undefined;
  /** Ends of its subscriptions, by address. */
  subscriptions: Map<string, () => void>;
}

export class GatewayEndpoint {
  readonly #options: GatewayOptions;
  readonly #gateway: Gateway | undefined;
  readonly #endpoint: Endpoint;
  readonly #catalog: Catalog | undefined;
  readonly #outputs = new Outputs();
  readonly #held = new Held();
  readonly #listeners = new Set<Listener>();
  /** Of requests under way of clients with sessions. */
  readonly #leaving = new Map<string, AbortController>();
  readonly #news = new Map<string, NodeJS.Timeout>();
  readonly #unlisten: (() => void) | undefined;
}
