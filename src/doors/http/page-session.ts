/**
 * Signing in to the page, and out.
 *
 * Invariant: a cookie is set for our own page only, and a code never stands in an address that is sent to a server.
 */
import { RotundaError } from "../../types/error.ts";
import type { RequestContext } from "./context.ts";
import { CALM } from "./page-headers.ts";
import type { SignIn } from "./page-schemas.ts";
import type { Handler } from "./routes.ts";
import { CSRF_HEADER } from "./session-cookie.ts";

function tell(context: RequestContext, csrf: string): void {
  const { identity, services } = context;
  context.json(
    200,
    {
      name: identity.name,
      local: identity.local,
      scopes: identity.scopes,
      csrf,
      auth: services.sessions.needed ? "token" : "none",
      expires_at: identity.session?.expiresAt ?? identity.token?.expiresAt ?? null,
      body_limit: services.bodyLimit,
      version: services.version,
      ...(identity.scopes.includes("settings") && { server: inForce(context) }),
    },
    CALM,
  );
}

function inForce({ app, services }: RequestContext) {
  return { workspace: services.workspace, database: app.config.database === undefined ? "SQLite" : "Postgres" };
}

export const signIn: Handler<SignIn> = async (context, body) => {
  const { sessions, limits } = context.services;
  if (!sessions.needed) {
    const { LOCAL_IDENTITY } = await import("./identity.ts");
    context.identity = LOCAL_IDENTITY;
    return tell(context, "");
  }
  const { identity, csrf, cookie } = await sessions.signIn(context.request, body);
  context.identity = identity;
  limits.countRequest(identity);
  context.extraHeaders.push("set-cookie", cookie);
  tell(context, csrf);
};

export const readSession: Handler = (context) => {
  const given = context.request.headers[CSRF_HEADER];
  tell(context, context.identity.session && typeof given === "string" ? given : "");
};

export const signOut: Handler = async (context) => {
  const { sessions, streams } = context.services;
  const { identity, request } = context;
  for (const line of await sessions.signOut(request, identity)) context.extraHeaders.push("set-cookie", line);
  if (identity.session) streams.closeSession(identity.session.name);
  context.empty(204);
};

export const makeLink: Handler = (context) => {
  const { identity, services } = context;
  // A session that could make sessions would never end.
  if (!identity.local || identity.session) {
    throw new RotundaError("insufficient_scope", "Only the local token itself makes a link: rotunda open.");
  }
  if (!services.sessions.needed) return context.json(200, { url: context.url.origin, code: null, expires_at: null });
  const { code, expiresAt } = services.sessions.newCode();
  context.json(200, { url: `${context.url.origin}/#sign-in=${code}`, code, expires_at: expiresAt });
};
