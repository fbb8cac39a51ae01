/**
 * Tools called by programs, without a model: SpeakMCP's `/mcp/tools/*` (parity S24, S25) and notion-open-agent's
 * `/tools` and `/tool/:name` (N5, N6).
 *
 * Invariant: the local token and MCP tools need no question; what else a rule would ask about needs the scope
 * `approve`, and admin tools need `admin`, by the same rule as routes that need it.
 */
import { RotundaError } from "../../types/error.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import type { Tool, ToolResult } from "../../types/tool.ts";
import { mayAdminister } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import type { Handler } from "./routes.ts";

async function offered(context: RequestContext): Promise<readonly Tool[]> {
  const tools = await context.app.engine.tools();
  return mayAdminister(context) ? tools : tools.filter((tool) => tool.admin !== true);
}

/** `server:tool`, and built-in ones by their bare name (parity S51). */
function speakmcpName(tool: Tool): string {
  return tool.server === "rotunda" ? tool.name : `${tool.server}:${tool.serverName}`;
}

export const listSpeakmcpTools: Handler = async (context) => {
  const tools = (await offered(context)).map((tool) => ({
    name: speakmcpName(tool),
    description: tool.description,
    inputSchema: tool.input,
  }));
  context.json(200, { tools });
};

export const callSpeakmcpTool: Handler<{ name: string; arguments?: unknown }> = async (context, body) => {
  context.json(200, wireResult(await call(context, body.name, body.arguments ?? {})));
};

export const listNotionTools: Handler = async (context) => {
  const tools = (await offered(context)).map((tool) => ({
    name: tool.serverName,
    namespacedName: tool.server === "rotunda" ? `rotunda__${tool.name}` : tool.name,
    serverName: tool.server,
    description: tool.description,
    inputSchema: tool.input,
  }));
  context.json(200, tools);
};

export const callNotionTool: Handler<{ args?: unknown } | undefined> = async (context, body) => {
  const name = context.params.name ?? "";
  if (!/^.+__.+$/.test(name)) {
    const text = `Invalid tool name "${name}" — expected format: serverName__toolName`;
    throw new DoorError("hub_unreachable", text);
  }
  context.json(200, wireResult(await call(context, name, body?.args ?? {})));
};

async function call(context: RequestContext, name: string, input: unknown): Promise<ToolResult> {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    throw new DoorError("usage", "arguments must be an object", { param: "arguments" });
  }
  const { app, identity, services } = context;
  const tool = await findTool(context, name);
  const free =
    identity.local || identity.scopes.includes("approve") || tool.server !== "rotunda" || tool.admin === true;
  const options = { workspace: services.workspace, signal: context.signal, by: identity.owner, door: "http" };
  return app.engine.call(name, input as JsonObject, { ...options, mode: free ? "auto" : "ask" });
}

/** Throws `tool_not_found` for what the asker may not even see. */
async function findTool(context: RequestContext, name: string): Promise<Tool> {
  const tools = await context.app.engine.tools();
  const bare = name.replace(/^(?:rotunda|speakmcp-settings)(?::|__)/, "");
  const found = tools.find((tool) => tool.name === bare || `${tool.server}:${tool.serverName}` === name);
  if (!found) throw new RotundaError("tool_not_found", `Unknown tool: ${name.slice(0, 200)}`);
  if (found.admin === true && !mayAdminister(context)) {
    const text = `${found.name} needs the scope admin, and over a network --allow-remote-admin as well`;
    throw new RotundaError("insufficient_scope", text);
  }
  return found;
}

/** As MCP writes a result. */
function wireResult({ text, isError, structured }: ToolResult) {
  return {
    content: [{ type: "text", text }],
    isError: isError === true,
    ...(structured !== undefined && { structuredContent: structured as Json }),
  };
}
