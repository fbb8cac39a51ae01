/**
 * `rotunda mcp`: an MCP server for one client, over stdin and stdout.
 *
 * Invariant: stdout belongs to the protocol alone. A turn runs in the server of this machine, which is started when the
 * first one comes, so that it outlives the editor; where that cannot be, it runs here and can be resumed.
 */
import { resolve } from "node:path";
import type { App } from "../../types/app.ts";
import type { McpCaller } from "../../types/mcp.ts";
import { readServerFile } from "../../util/server-file.ts";
import { visible } from "../../util/text.ts";
import type { AppFlags } from "./app-flags.ts";
import type { CommandContext } from "./context.ts";
import { untilClosed } from "./stop-signal.ts";
import { startTurn } from "./turn.ts";

declare const ROTUNDA_VERSION: string;

/** As the command line gives them. */
export interface McpCommandOptions extends Pick<AppFlags, "config"> {
  standalone?: boolean;
  oldNames?: boolean;
  verbose?: boolean;
}

export async function mcp(context: CommandContext, options: McpCommandOptions): Promise<number> {
  const { environment, streams } = context;
  const named = options.config ?? environment.ROTUNDA_CONFIG;
  const configuration = named ? resolve(context.workspace, named) : undefined;
  const flags: AppFlags = configuration === undefined ? {} : { config: configuration };
  const tells = options.verbose || environment.MCP_CLAUDE_DEBUG === "true" || environment.POLYBRAIN_DEBUG === "true";
  const door = await context.mcp({
    input: process.stdin,
    output: process.stdout,
    version: ROTUNDA_VERSION,
    oldNames: options.oldNames === true,
    caller: localCaller(context, flags, options.standalone === true),
    tell: (text) => {
      if (tells) streams.err(`${visible(text)}\n`);
    },
  });
  if (process.stdin.isTTY) streams.err("An MCP client starts this command and speaks to it: see docs/mcp.md\n");
  return untilClosed(door);
}

/** Whoever starts this command holds the machine. */
function localCaller(context: CommandContext, flags: AppFlags, standalone: boolean): McpCaller {
  const { workspace } = context;
  const configuration = flags.config === undefined ? {} : { configuration: flags.config };
  const appOf = (folder: string) =>
    folder === workspace ? context.app(flags) : context.appFor({ workspace: folder, settings: configuration });
  let launching: Promise<void> | undefined;
  const start = async () => {
    const app = await context.app(flags);
    const { launchServer } = await import("./background.ts");
    const { server, said } = await launchServer(
      app.stateDirectory,
      flags.config === undefined ? [] : ["--config", flags.config],
      workspace,
    );
    if (!server) context.streams.err(`No server could be started, so turns run in this process: ${visible(said)}\n`);
  };
  /** Turns that come at once wait for one start; where none can be had it is not tried for each of them. */
  const launch = () => {
    launching ??= start().finally(() => setTimeout(() => (launching = undefined), 10_000).unref());
    return launching;
  };
  const toServer = async (app: App, path: string, body: object) => {
    if (standalone) return undefined;
    const { postToServer } = await import("./remote.ts");
    return postToServer(app.stateDirectory, path, body).catch(() => undefined);
  };
  return {
    owner: "local",
    local: true,
    workspace,
    app: (folder) => appOf(folder ?? workspace),
    may: () => true,
    mayUseProfile: () => true,
    async start(app, request) {
      const given = { ...request, settings: { ...request.settings, ...configuration } };
      if (standalone) return app.engine.start(given);
      if (!readServerFile(app.stateDirectory)) await launch();
      return startTurn(app, given);
    },
    async decide({ id }, { decision, scope, reason, by }) {
      const app = await context.app(flags);
      const body = {
        approvalId: id,
        approved: decision === "allow",
        ...(scope && { scope }),
        ...(reason && { reason }),
      };
      if (await toServer(app, "/v1/tool-approval", body)) return;
      await app.engine.decide(id, { decision, by, door: "mcp", ...(scope && { scope }), ...(reason && { reason }) });
      await app.engine.goOn(id);
    },
    async revive(node) {
      const own = await context.appFor(node);
      if (await toServer(own, `/v1/responses/${node.id}/resume`, {})) return;
      if (!standalone && !readServerFile(own.stateDirectory)) await launch();
      // A server that has just begun takes it up by itself; where there is none it goes on here.
      if (standalone || !readServerFile(own.stateDirectory)) await own.engine.resume(node.id);
    },
  };
}
