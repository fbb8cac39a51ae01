/**
 * Routes: what one entry of the table of routes is.
 *
 * Invariant: an entry is small and imports nothing heavy; its schemas and its handler are loaded when they are
 * first used. What the entry says (scope, body, style) is carried out by the door before the handler is called,
 * and is what /openapi.json publishes.
 */
import type { ZodType } from "zod";
import type { Scope } from "../../types/token.ts";
import type { RequestContext } from "./context.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** How errors are written: OpenAI's object, `{"error": "message"}`, or a JSON-RPC error. */
export type ErrorStyle = "openai" | "plain" | "jsonrpc";

/**
 * Answers one request: through `context.json`, `context.text`, `context.stream`, or on the raw response. `body` is
 * the parsed and validated JSON (undefined where the route declares none, or an optional one was empty). Whatever
 * it throws becomes an error in the route's style.
 */
export type Handler<Body = unknown> = (context: RequestContext, body: Body) => Promise<void> | void;

/**
 * What a parameter of the path must look like before a handler sees it. "id": a whole id of ours (`isId`);
 * "name": 1–256 characters, none of them a control character, a slash or a backslash, not "." or "..". Whatever
 * does not fit is a 404 `invalid_id`.
 */
export type ParameterForm = "id" | "name" | RegExp;

export interface Route {
  method: Method;
  /** `/v1/responses/:id/cancel`; each `:word` is one segment. */
  path: string;
  /** One line for the published document. */
  summary: string;
  /** Another address of what a route that is published answers: it is not in the published document. */
  alias?: true;
  /** Groups routes in the published document. */
  tag: string;
  /** One of these scopes is needed; "any": a valid token is enough; null: open to everybody. */
  scope: Scope | readonly Scope[] | "any" | null;
  style: ErrorStyle;
  /** By the name of the parameter. Default: "id" for `:id` and names that end in `Id`, else "name". */
  params?: Readonly<Record<string, ParameterForm>>;
  /** Schema of the JSON body. Absent: the route takes none, and what comes is not parsed. */
  body?: () => Promise<ZodType>;
  /** An empty body is allowed (the handler gets undefined). Default false: it is a 400. */
  bodyOptional?: boolean;
  /** Bytes; only where it is other than the door's own. */
  bodyLimit?: number;
  /** Query parameters, for the published document only. */
  query?: Readonly<Record<string, string>>;
  /** Schema of the answer with status 200, for the published document only. */
  response?: () => Promise<ZodType>;
  /** Media type of the answer. Default "application/json". */
  produces?: string;
  /** Further statuses that it may answer with, for the published document: what the door itself answers is known. */
  statuses?: Readonly<Record<number, string>>;
  /**
   * POST only. Default "answer": the door keeps the answer for whoever comes again with the same Idempotency-Key.
   * "response": the handler starts a response and hands `context.idempotency` to `engine.start`. "none": ignored.
   */
  idempotent?: "answer" | "response" | "none";
  /** The handler writes on the raw response; the door's own headers are set before it is called. */
  raw?: boolean;
  load: () => Promise<Handler>;
}

/** A route whose handler's body has the type of the schema. */
export function defineRoute<Schema extends ZodType>(
  route: Omit<Route, "body" | "load"> & {
    body: () => Promise<Schema>;
    load: () => Promise<Handler<Schema["_zod"]["output"]>>;
  },
): Route {
  // What the schema lets through is what the handler asks for: the door calls it with nothing else.
  return route as unknown as Route;
}
