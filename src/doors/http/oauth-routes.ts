/** The table of the routes that log in to MCP servers (parity S35). */
import { defineRoute, type Route } from "./routes.ts";

const common = { style: "plain", tag: "mcp servers" } as const;
const handlers = () => import("./oauth.ts");
const schemas = () => import("./speakmcp-schemas.ts");

export const oauthRoutes: readonly Route[] = [
  defineRoute({
    ...common,
    method: "POST",
    path: "/v1/oauth/initiate",
    summary: "Begin a login to an MCP server: the address that a person must open",
    scope: "mcp:admin",
    idempotent: "none",
    body: async () => (await schemas()).oauthInitiate,
    load: async () => (await handlers()).initiate,
  }),
  defineRoute({
    ...common,
    method: "POST",
    path: "/v1/oauth/callback",
    summary: "Finish a login with what came back to the redirect address",
    scope: "mcp:admin",
    idempotent: "none",
    body: async () => (await schemas()).oauthCallback,
    load: async () => (await handlers()).callback,
  }),
  defineRoute({
    ...common,
    method: "POST",
    path: "/v1/oauth/logout",
    summary: "Forget the login to an MCP server",
    scope: "mcp:admin",
    idempotent: "none",
    body: async () => (await schemas()).oauthInitiate,
    load: async () => (await handlers()).logout,
  }),
  {
    ...common,
    method: "GET",
    path: "/oauth/callback",
    summary: "Where a browser comes back to from a login; its state is the secret, and good for one use",
    // A browser that comes from the authorization server has no token of ours.
    scope: null,
    produces: "text/html",
    query: { state: "Of the login", code: "Of the authorization server", iss: "Its issuer", error: "Why it refused" },
    statuses: { 400: "The login was not finished" },
    load: async () => (await handlers()).browserCallback,
  },
];
