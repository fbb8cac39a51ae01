/**
 * Logins to MCP servers over HTTP (parity S35).
 *
 * Invariant: neither the PKCE verifier nor a token ever leaves the process; the open route does nothing but finish a
 * login whose state it is shown, and its page is the same whoever asks for it.
 */
import type { HubView } from "../../types/app.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { Json } from "../../types/json.ts";
import { CALLBACK_HEADERS, CALLBACK_PATH, callbackPage } from "../../util/callback-page.ts";
import type { RequestContext } from "./context.ts";
import type { Handler } from "./routes.ts";
import type { OauthCallback, OauthInitiate } from "./speakmcp-schemas.ts";

async function hubWith(context: RequestContext, name: string): Promise<HubView> {
  const hub = await context.app.hub();
  if (!hub?.servers().some((server) => server.name === name)) {
    throw new RotundaError("not_found", `Server '${name}' not found`);
  }
  return hub;
}

function audit(context: RequestContext, details: { [key: string]: Json }): Promise<void> {
  const { identity, app } = context;
  return app.store.audit({
    action: "server",
    who: identity.owner,
    door: "http",
    responseId: null,
    at: Date.now(),
    details,
  });
}

/** Our own address as the client knows it: its host has passed the list of allowed ones. */
function redirectUrl({ app, request }: RequestContext): string {
  const { host = "127.0.0.1", "x-forwarded-proto": proxied } = request.headers;
  const secure = app.config.server.behindProxy || proxied === "https";
  // "localhost" may be another program's; what is registered is the address itself.
  return `${secure ? "https" : "http"}://${host.replace(/^localhost(?=:|$)/, "127.0.0.1")}${CALLBACK_PATH}`;
}

export const initiate: Handler<OauthInitiate> = async (context, { serverName }) => {
  const hub = await hubWith(context, serverName);
  const { authorizationUrl, state } = await hub.beginLogin(serverName, redirectUrl(context));
  await audit(context, { server: serverName, login: "begun" });
  context.json(200, { authorizationUrl, state });
};

export const callback: Handler<OauthCallback> = async (context, { serverName, code, state, iss }) => {
  const hub = await hubWith(context, serverName);
  const answer = { server: serverName, code, state, ...(iss !== undefined && { iss }) };
  const server = await hub.finishLogin(answer);
  await audit(context, { server: serverName, login: "finished" });
  const { connected, toolCount, state: now } = server;
  context.json(200, { success: true, server: serverName, connected, toolCount, state: now });
};

export const logout: Handler<OauthInitiate> = async (context, { serverName }) => {
  const hub = await hubWith(context, serverName);
  const { revoked } = await hub.logout(serverName);
  await audit(context, { server: serverName, login: "forgotten" });
  context.json(200, { success: true, server: serverName, revoked });
};

export const browserCallback: Handler = async (context) => {
  const { query } = context;
  const text = (name: string) => query.get(name) ?? undefined;
  const [state = "", code, iss, error] = [text("state"), text("code"), text("iss"), text("error")];
  let done = false;
  try {
    const hub = await context.app.hub();
    const server = await hub?.finishLogin({
      state,
      ...(code !== undefined && { code }),
      ...(iss !== undefined && { iss }),
      ...(error !== undefined && { error }),
    });
    done = server !== undefined;
    if (server) await audit(context, { server: server.name, login: "finished" });
  } catch (thrown) {
    // The page tells nothing: whoever reads it may be anybody. The operator reads it here, unless it is mere noise.
    const { code: kind, message } = toRotundaError(thrown);
    if (kind !== "not_found") context.services.log({ level: "warn", text: message });
  }
  context.text(done ? 200 : 400, "text/html; charset=utf-8", callbackPage(done), CALLBACK_HEADERS);
};
