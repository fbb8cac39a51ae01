/**
 * MCP over HTTP: from a request of this door to one of the MCP door, and its answer back.
 *
 * Invariant: what stands before a handler (host, origin, token, scope, limits) holds here as on every route; an answer
 * is written as it comes, and not faster than the client reads it.
 */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { Json } from "../../types/json.ts";
import type { McpCaller } from "../../types/mcp.ts";
import { mayAdminister, ownApproval, ownNode } from "./access.ts";
import { requireScope } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
import { goOn, resume } from "./go-on.ts";
import { mayUseProfile } from "./identity.ts";
import { parseJsonBody } from "./json-body.ts";
import type { Handler } from "./routes.ts";

export const answerMcp: Handler = async (context) => {
  const { services, request, response, params, path } = context;
  const endpoints = await services.mcp?.();
  if (!endpoints) throw new RotundaError("not_found", "There is no MCP server at this path.");
  const body = await bodyOf(context);
  if (body instanceof Response) return write(body, response);
  const name = path.startsWith("/mcp/hub")
    ? `hub${params.profile === undefined ? "" : `/${params.profile}`}`
    : "rotunda";
  const headers = new Headers();
  for (const [key, value] of Object.entries(request.headers)) if (typeof value === "string") headers.set(key, value);
  // What opens this door is nobody else's affair.
  for (const secret of ["authorization", "x-api-key", "api-key", "cookie"]) headers.delete(secret);
  const answer = await endpoints.answer(name, {
    method: request.method ?? "",
    headers,
    body,
    signal: context.signal,
    caller: callerOf(context),
  });
  if (!answer) throw new RotundaError("not_found", "There is no MCP server at this path.");
  await write(answer, response);
};

/** JSON that cannot be read is answered in JSON-RPC's words. */
async function bodyOf(context: RequestContext): Promise<Json | undefined | Response> {
  if (context.request.method !== "POST") return undefined;
  const bytes = await context.readBody();
  try {
    return await parseJsonBody(bytes);
  } catch (error) {
    if (!(error instanceof RotundaError && error.code === "usage")) throw error;
    const message = `Parse error: ${error.message}`;
    return Response.json({ jsonrpc: "2.0", error: { code: -32_700, message }, id: null }, { status: 400 });
  }
}

async function write(answer: Response, response: ServerResponse): Promise<void> {
  for (const [name, value] of answer.headers) response.setHeader(name, value);
  response.writeHead(answer.status);
  if (!answer.body) {
    response.end();
    return;
  }
  const reader = answer.body.getReader();
  const leave = () => void reader.cancel("client_gone").catch(() => undefined);
  response.once("close", leave);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || response.destroyed) break;
      if (!response.write(value) && !response.destroyed)
        await Promise.race([once(response, "drain"), once(response, "close")]);
    }
  } finally {
    response.off("close", leave);
    response.end();
  }
}

function callerOf(context: RequestContext): McpCaller {
  const { identity, services } = context;
  const { workspace } = services;
  return {
    owner: identity.owner,
    local: identity.local,
    workspace,
    app: async (folder) => (folder === undefined || folder === workspace ? services.app : services.appFor(folder)),
    may: (scope) => (scope === "admin" ? mayAdminister(context) : identity.scopes.includes(scope)),
    mayUseProfile: (profile) => mayUseProfile(identity, profile),
    async start(app: App, request) {
      const release = await context.acquireRun();
      try {
        const node = await app.engine.start(request);
        context.responseId = node.id;
        app.engine.wait(node.id).then(release, release);
        return node;
      } catch (error) {
        release();
        throw error;
      }
    },
    async decide(approval, decision) {
      const own = await ownApproval(context, approval.id);
      requireScope(identity, "approve");
      await services.app.engine.decide(own.id, { ...decision, by: identity.name, who: identity.owner, door: "mcp" });
      await goOn(services, own);
    },
    async revive(node) {
      await ownNode(context, node.id);
      await resume(services, node);
    },
  };
}

export const protectedResource: Handler = (context) => {
  const { origin } = context.url;
  context.json(200, {
    resource: `${origin}/mcp`,
    resource_name: "Rotunda",
    bearer_methods_supported: ["header"],
  });
};
