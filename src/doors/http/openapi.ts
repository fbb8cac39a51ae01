/**
 * The OpenAPI 3.1 document, made from the table of routes.
 *
 * Invariant: a body's schema in it is the schema that validates, turned into JSON Schema; nothing is written twice.
 */
import type { ZodType } from "zod";
import type { Json, JsonObject } from "../../types/json.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";

const made = new WeakMap<Services, Promise<string>>();

/** The document as text; made once for each door. */
export function openApiText(services: Services): Promise<string> {
  const known =
    made.get(services) ?? openApiDocument(services.routes, services.version).then((it) => JSON.stringify(it));
  made.set(services, known);
  return known;
}

async function openApiDocument(routes: readonly Route[], version: string): Promise<JsonObject> {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes.filter(({ alias }) => !alias)) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: await operation(route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Rotunda", version, summary: "One agent engine, many doors, every answer a checkpoint" },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "Also taken: x-api-key" },
      },
      schemas: { OpenAiError: OPENAI_ERROR, PlainError: PLAIN_ERROR, JsonRpcError: JSON_RPC_ERROR },
    },
  };
}

const TEXT = { type: "string" };

const OPENAI_ERROR: JsonObject = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: TEXT,
        type: TEXT,
        param: { type: ["string", "null"] },
        code: { type: ["string", "null"] },
      },
    },
  },
};

const PLAIN_ERROR: JsonObject = { type: "object", required: ["error"], properties: { error: TEXT } };

const JSON_RPC_ERROR: JsonObject = {
  type: "object",
  required: ["jsonrpc", "error"],
  properties: {
    jsonrpc: { const: "2.0" },
    error: { type: "object", required: ["code", "message"], properties: { code: { type: "integer" }, message: TEXT } },
  },
};

const ERRORS: Record<Route["style"], string> = { openai: "OpenAiError", plain: "PlainError", jsonrpc: "JsonRpcError" };

async function operation(route: Route): Promise<JsonObject> {
  const body = await schemaOf(route.body, "input");
  return {
    operationId: `${route.method.toLowerCase()}${route.path.replace(/[^A-Za-z0-9]+/g, "_").replace(/_$/, "")}`,
    summary: route.summary,
    tags: [route.tag],
    ...(route.scope === null ? { security: [] } : { "x-rotunda-scopes": scopesOf(route) }),
    parameters: parameters(route),
    ...(body && {
      requestBody: { required: route.bodyOptional !== true, content: { "application/json": { schema: body } } },
    }),
    responses: await responses(route),
  };
}

function scopesOf({ scope }: Route): Json {
  return typeof scope === "string" ? (scope === "any" ? [] : [scope]) : [...(scope ?? [])];
}

function parameters(route: Route): Json {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: TEXT,
  }));
  const inQuery = Object.entries(route.query ?? {}).map(([name, description]) => ({
    name,
    in: "query",
    description,
    schema: TEXT,
  }));
  const key = {
    name: "Idempotency-Key",
    in: "header",
    description: "The same key and body: the same answer, for 24 hours",
    schema: { type: "string", minLength: 1, maxLength: 255 },
  };
  return [...inPath, ...inQuery, ...(route.method === "POST" && route.idempotent !== "none" ? [key] : [])];
}

async function responses(route: Route): Promise<JsonObject> {
  const schema = await schemaOf(route.response, "output");
  const error = (description: string) => ({
    description,
    content: { "application/json": { schema: { $ref: `#/components/schemas/${ERRORS[route.style]}` } } },
  });
  const declared: Record<string, JsonObject> = {
    200: {
      description: "Done",
      content: { [route.produces ?? "application/json"]: schema ? { schema } : {} },
    },
  };
  for (const [status, meaning] of Object.entries({ ...usualStatuses(route), ...route.statuses })) {
    declared[status] = Number(status) < 400 ? { description: meaning } : error(meaning);
  }
  return declared;
}

/** What the door itself may answer. */
export function usualStatuses(route: Pick<Route, "scope" | "body" | "path" | "method">): Record<number, string> {
  const writes = route.method === "POST" || route.method === "PUT" || route.method === "PATCH";
  return {
    ...(route.scope !== null && { 401: "No valid token", 429: "Over a limit" }),
    403: "The scope, the host or the origin is not allowed",
    ...(route.path.includes(":") && { 404: "There is none, or it is somebody else's" }),
    ...(writes && { 413: "The body is too long", 415: "The body is not JSON" }),
    ...((route.body || route.method === "POST") && { 400: "The request is wrong" }),
    ...(route.method === "POST" && { 422: "The Idempotency-Key was used for another request" }),
    503: "The server is shutting down",
  };
}

async function schemaOf(
  get: (() => Promise<ZodType>) | undefined,
  io: "input" | "output",
): Promise<JsonObject | undefined> {
  if (!get) return undefined;
  const { toJSONSchema } = await import("zod");
  // What JSON Schema cannot say (a check in code) is left out, and not a reason to publish nothing.
  const { $schema: _dialect, ...schema } = toJSONSchema(await get(), { io, unrepresentable: "any" }) as JsonObject;
  return schema;
}
