/** Routes of MCP: what is answered there is the affair of the MCP door; here a request becomes one of its own. */
import type { Route } from "./routes.ts";

const entry = {
  tag: "mcp",
  style: "jsonrpc",
  idempotent: "none",
  raw: true,
  load: async () => (await import("./mcp.ts")).answerMcp,
} as const;

function onAddress(path: string, summary: string, scope: Route["scope"]): Route[] {
  return [
    { ...entry, method: "POST", path, scope, summary },
    {
      ...entry,
      method: "GET",
      path,
      scope,
      summary: `${summary}: what a session is told`,
      produces: "text/event-stream",
    },
    { ...entry, method: "DELETE", path, scope, summary: `${summary}: end a session` },
  ];
}

export const mcpRoutes: readonly Route[] = [
  ...onAddress("/mcp", "Speak to models and agents through MCP", ["chat", "responses:write"]),
  ...onAddress("/mcp/hub", "All MCP servers of the hub as one", "tools:call"),
  ...onAddress("/mcp/hub/:profile", "The MCP servers of one profile as one", "tools:call"),
  {
    method: "GET",
    path: "/.well-known/oauth-protected-resource/mcp",
    summary: "How the MCP address is protected (RFC 9728)",
    tag: "mcp",
    scope: null,
    style: "plain",
    load: async () => (await import("./mcp.ts")).protectedResource,
  },
];
