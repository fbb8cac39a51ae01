/**
 * The MCP server of Rotunda itself: one factory for HTTP and stdio, for every generation of the protocol.
 *
 * Invariant: the list of tools is the same for everybody and needs neither configuration nor database; nothing of an
 * app is made before something is asked that needs it, so a client that only connects waits for nothing.
 */
import { McpServer, type RequestStateCodec } from "@modelcontextprotocol/server";
import type { McpCaller } from "../../types/mcp.ts";
import type { Pending } from "./asking.ts";
import { addPrompts, addResources } from "./reading.ts";
import { Session } from "./session.ts";
import { serveTools } from "./tool-table.ts";

export interface RotundaServerOptions {
  caller: McpCaller;
  era: "legacy" | "modern";
  codec: RequestStateCodec<Pending>;
  version: string;
  /** The bridge's later names (start, resume, status, cancel, query) as well. */
  oldNames?: boolean;
  /** Aborted when everything is about to end. */
  leaving: AbortSignal;
}

const INSTRUCTIONS =
  "Ask other models and agents: `ask` waits for the answer, `ask_async` starts it in the background. Every answer has " +
  "a Response ID that can be gone on from (previousResponseId), with any model. A call that takes long returns its " +
  "Response ID in time: get the answer with `ask_wait`. `list_models` tells who can be asked.";

/** Nothing in a list changes for a minute, and it is nobody's secret. */
const FOR_ALL = { ttlMs: 60_000, cacheScope: "public" } as const;
const FOR_ONE = { ttlMs: 0, cacheScope: "private" } as const;

export async function rotundaServer(options: RotundaServerOptions): Promise<McpServer> {
  const { caller, era, codec, version, leaving } = options;
  const server = new McpServer(
    { name: "rotunda", title: "Rotunda", version },
    {
      instructions: INSTRUCTIONS,
      requestState: { verify: codec.verify },
      cacheHints: { "tools/list": FOR_ALL, "resources/list": FOR_ONE, "resources/templates/list": FOR_ALL },
    },
  );
  const capabilities = () => server.server.getClientCapabilities() ?? {};
  const session = new Session({ caller, era, codec, leaving, capabilities });
  serveTools(server, async () => (await import("./tools.ts")).toolsOf(session, options.oldNames === true));
  addResources(server, caller);
  addPrompts(server, caller);
  if (era === "modern") {
    const [{ serveTasks }, { responseTasks }] = await Promise.all([
      import("./tasks.ts"),
      import("./response-tasks.ts"),
    ]);
    serveTasks(server.server, responseTasks(caller));
  }
  return server;
}
