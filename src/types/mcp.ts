/**
 * MCP: what stands between the door that brings requests (HTTP, stdio) and the servers that answer them.
 *
 * Invariant: a caller sees and makes rows of its owner only; whoever holds the machine ("local") sees all of them.
 */
import type { App } from "./app.ts";
import type { Approval, Decision } from "./approval.ts";
import type { RunRequest } from "./engine.ts";
import type { Owner, ResponseNode } from "./response.ts";
import type { Scope } from "./token.ts";

/** Who asks, and how its runs are started. */
export interface McpCaller {
  readonly owner: Owner;
  /** Holds the machine: may name directories, sees everything. */
  readonly local: boolean;
  /** Absolute path of the directory that its runs work in unless they say otherwise. */
  readonly workspace: string;
  /** The app of that directory, or of another one: only for local callers. */
  app(workspace?: string): Promise<App>;
  may(scope: Scope): boolean;
  mayUseProfile(profile: string): boolean;
  /** Throws what `Engine.start` throws, and `rate_limited`. */
  start(app: App, request: RunRequest): Promise<ResponseNode>;
  /** Answers, and lets the run go on. Throws what `Engine.decide` throws. */
  decide(approval: Approval, decision: Decision): Promise<void>;
  /** A response that was left behind by a process that is gone goes on. */
  revive(node: ResponseNode): Promise<void>;
}

/** One request of the HTTP door. */
export interface McpRequest {
  method: string;
  headers: Headers;
  /** Parsed; undefined where there is none. */
  body: unknown;
  /** Aborted when the client has gone away. */
  signal: AbortSignal;
  caller: McpCaller;
}

/** Servers of MCP over HTTP, by name: "rotunda", "hub", "hub/PROFILE". */
export interface McpEndpoints {
  /** Undefined: there is no server of this name. */
  answer(name: string, request: McpRequest): Promise<Response | undefined>;
  /** Whoever waits is answered now, with what is known: everything is about to end. */
  leave(): void;
  close(): Promise<void>;
}
