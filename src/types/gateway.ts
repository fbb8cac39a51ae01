/**
 * Gateway: the servers of the hub as they are, for a door that hands them on.
 *
 * Invariant: what a server lists, answers, tells and asks passes unaltered; what belongs to a call reaches whoever made
 * that call, and in doubt nobody; all callers share the connections of a server.
 */
import type { JsonObject } from "./json.ts";

/** Protocols until 2025-11-25, and those from 2026-07-28 on. */
export type Generation = "legacy" | "modern";

export type GatewayKind = "tools" | "resources" | "resourceTemplates" | "prompts";

/** Whoever makes a call, as far as a server may know it. */
export interface GatewayCaller {
  /** Calls of one owner may be taken for each other, where a server does not say which one it means. */
  readonly owner: string;
  readonly generation: Generation;
  /** As the client has declared them. */
  readonly capabilities: JsonObject;
  /** Of the client's request, where it is of 2026-07-28. */
  readonly logLevel?: string;
  /** The client gave up, or went away. */
  readonly signal: AbortSignal;
  /** Told of each progress, without a token; absent: it did not ask for it. */
  readonly onProgress?: (progress: JsonObject) => void;
  /** A notification in the middle of the call. */
  notify(method: string, params: JsonObject): void;
  /** A request of the server in the middle of the call. Rejects with `code` and `message` of JSON-RPC. */
  ask(method: string, params: JsonObject, signal: AbortSignal): Promise<JsonObject>;
}

export interface GatewayAnswer {
  /** As it came; of a modern server also `resultType: "input_required"`. */
  result: JsonObject;
  /** Of the server that has answered. */
  generation: Generation;
}

/** What could not be had of a server. */
export class GatewayError extends Error {
  /** Of JSON-RPC: the server's own where it answered with an error. */
  readonly code: number;
  readonly data: unknown;
  /** The server itself has said so; else it could not be reached, hung, or has died. */
  readonly answered: boolean;

  constructor(code: number, message: string, options: { data?: unknown; answered?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "GatewayError";
    this.code = code;
    this.data = options.data;
    this.answered = options.answered ?? false;
  }
}

export interface GatewayServer {
  /** Its name in the configuration. */
  readonly name: string;
  /** The name of `^[A-Za-z0-9_-]{1,64}$` that stands for something of this server everywhere. */
  nameOf(own: string): string;
  /** All pages, in the server's order; empty where it has none of the kind. Throws `GatewayError`. */
  list(kind: GatewayKind): Promise<readonly JsonObject[]>;
  /** Throws `GatewayError`. A request that cannot have arrived is sent once more. */
  request(method: string, params: JsonObject, caller: GatewayCaller): Promise<GatewayAnswer>;
  /** From now on its news tell of this resource; returns the end of it. Throws `GatewayError`. */
  subscribe(uri: string, caller: GatewayCaller): Promise<() => void>;
  /** The least severe level that anybody wants to hear of, for servers of the older protocols. */
  setLevel(level: string): void;
  /** A person has seen what changed about this tool, and allowed it. */
  accept(tool: string): void;
}

export type GatewayNews =
  | { kind: "tools" | "resources" | "prompts"; server: string }
  | { kind: "updated"; server: string; uri: string };

export interface Gateway {
  /** Those in use, in the order of the configuration. The same object as long as its configuration is the same. */
  servers(): readonly GatewayServer[];
  /** Returns the removal. */
  onNews(listener: (news: GatewayNews) => void): () => void;
}
