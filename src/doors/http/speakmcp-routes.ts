/** The table of SpeakMCP's and notion-open-agent's routes (parity S13–S36, N4–N6). */
import type { Scope } from "../../types/token.ts";
import { defineRoute, type Handler, type Method, type Route } from "./routes.ts";

const style = "plain" as const;
const schemas = () => import("./speakmcp-schemas.ts");
const management = () => import("./management.ts");
const approvals = () => import("./approvals.ts");
const tools = () => import("./tools.ts");
const anyObject = async () => (await schemas()).anyObject;

type Loader = () => Promise<Handler>;

function route(method: Method, path: string, summary: string, scope: Route["scope"], load: Loader): Route {
  const tag = path.startsWith("/v1/profiles") ? "profiles" : path.startsWith("/v1/mcp") ? "mcp servers" : "speakmcp";
  return { method, path, summary, tag, style, scope, params: { id: "id", name: "name" }, load };
}

/** With any JSON object as its body: what is wrong in it is said in SpeakMCP's words. */
function change(
  method: Method,
  path: string,
  summary: string,
  scope: Scope,
  load: () => Promise<unknown>,
  idempotent: "answer" | "none" = "answer",
): Route {
  const made = route(method, path, summary, scope, load as Loader);
  return { ...made, body: anyObject, ...(method === "POST" && { idempotent }) };
}

const profileRoutes: Route[] = [
  route("GET", "/v1/profiles", "List profiles", "any", async () => (await management()).listProfiles),
  route(
    "GET",
    "/v1/profiles/current",
    "Read the default profile",
    "any",
    async () => (await management()).currentProfile,
  ),
  change("POST", "/v1/profiles/current", "Choose the default profile", "settings", async () => {
    return (await management()).switchProfile;
  }),
  change("POST", "/v1/profiles", "Create a profile", "settings", async () => (await management()).createProfile),
  change("POST", "/v1/profiles/import", "Import a profile", "settings", async () => (await management()).importProfile),
  change("PATCH", "/v1/profiles/:name", "Change a profile", "settings", async () => (await management()).updateProfile),
  route("DELETE", "/v1/profiles/:name", "Delete a profile", "settings", async () => (await management()).deleteProfile),
  route("GET", "/v1/profiles/:name/export", "Export a profile", "settings", async () => {
    return (await management()).exportProfile;
  }),
];

const settingsRoutes: Route[] = [
  route(
    "GET",
    "/v1/settings",
    "Read the settings, secrets masked",
    "settings",
    async () => (await management()).getSettings,
  ),
  change("PATCH", "/v1/settings", "Change settings", "settings", async () => (await management()).patchSettings),
];

const server = "/v1/mcp/servers/:name";

const serverRoutes: Route[] = [
  route("GET", "/v1/mcp/servers", "List MCP servers", "any", async () => (await management()).listServers),
  defineRoute({
    ...route("POST", "/v1/mcp/servers", "Add an MCP server", "admin", async () => () => undefined),
    body: async () => (await schemas()).addServer,
    load: async () => (await management()).addServer,
  }),
  change(
    "PUT",
    `${server}/config`,
    "Add or change an MCP server",
    "admin",
    async () => (await management()).configureServer,
  ),
  route("DELETE", server, "Remove an MCP server", "admin", async () => (await management()).removeServer),
  change("POST", `${server}/toggle`, "Turn an MCP server on or off", "mcp:admin", async () => {
    return (await management()).toggleServer;
  }),
  route(
    "POST",
    `${server}/restart`,
    "Restart an MCP server",
    "mcp:admin",
    async () => (await management()).restartServer,
  ),
  route("POST", `${server}/stop`, "Stop an MCP server", "mcp:admin", async () => (await management()).stopServer),
  route("POST", `${server}/test`, "Connect to an MCP server", "mcp:admin", async () => (await management()).testServer),
  route("GET", `${server}/logs`, "Read an MCP server's log", "mcp:admin", async () => (await management()).serverLogs),
  route(
    "POST",
    `${server}/logs/clear`,
    "Clear an MCP server's log",
    "mcp:admin",
    async () => (await management()).clearLogs,
  ),
];

const approvalRoutes: Route[] = [
  route("GET", "/v1/tool-approvals", "List what waits for a person", ["approve", "responses:read"], async () => {
    return (await approvals()).listApprovals;
  }),
  defineRoute({
    ...route("POST", "/v1/tool-approval", "Allow or deny a call", "approve", async () => () => undefined),
    body: async () => (await schemas()).answerApproval,
    load: async () => (await approvals()).answerApproval,
  }),
  route("GET", "/v1/rules", "List the rules learned from answers", ["approve", "admin"], async () => {
    return (await approvals()).listRules;
  }),
  route("DELETE", "/v1/rules/:id", "Take a learned rule back", ["approve", "admin"], async () => {
    return (await approvals()).removeRule;
  }),
  route("GET", "/v1/elicitation/pending", "List questions of MCP servers", "approve", async () => {
    return (await approvals()).listElicitations;
  }),
  defineRoute({
    ...route("POST", "/v1/elicitation/:id/resolve", "Answer an MCP server", "approve", async () => () => undefined),
    body: async () => (await schemas()).answerElicitation,
    load: async () => (await approvals()).answerElicitation,
  }),
  route(
    "GET",
    "/v1/sampling/pending",
    "Nothing: what a server asks a model comes as an elicitation",
    "approve",
    async () => {
      return (await approvals()).listSampling;
    },
  ),
  route(
    "POST",
    "/v1/sampling/:id/resolve",
    "Nothing: what a server asks a model comes as an elicitation",
    "approve",
    async () => {
      return (await approvals()).answerSampling;
    },
  ),
  route("POST", "/v1/emergency-stop", "End every run", ["responses:write", "chat", "admin"], async () => {
    return (await approvals()).emergencyStop;
  }),
];

const toolRoutes: Route[] = [
  route("POST", "/mcp/tools/list", "List all tools", "tools:call", async () => (await tools()).listSpeakmcpTools),
  defineRoute({
    ...route("POST", "/mcp/tools/call", "Call a tool", "tools:call", async () => () => undefined),
    body: async () => (await schemas()).callTool,
    load: async () => (await tools()).callSpeakmcpTool,
  }),
  route(
    "GET",
    "/tools",
    "List all tools (notion-open-agent)",
    "tools:call",
    async () => (await tools()).listNotionTools,
  ),
  defineRoute({
    ...route("POST", "/tool/:name", "Call a tool (notion-open-agent)", "tools:call", async () => () => undefined),
    bodyOptional: true,
    statuses: { 502: "The name is none, or its server cannot be reached" },
    body: async () => (await schemas()).notionCall,
    load: async () => (await tools()).callNotionTool as Handler<{ args?: unknown }>,
  }),
  defineRoute({
    ...route("POST", "/chat", "One message, one answer (notion-open-agent)", "chat", async () => () => undefined),
    idempotent: "response",
    body: async () => (await schemas()).notionChat,
    load: async () => (await import("./notion.ts")).notionChat,
  }),
];

export const speakmcpRoutes: Route[] = [
  ...profileRoutes,
  ...settingsRoutes,
  ...serverRoutes,
  ...approvalRoutes,
  ...toolRoutes,
];
