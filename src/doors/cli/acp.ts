/**
 * `rotunda acp`: the agent of an editor.
 *
 * Invariant: stdout belongs to the protocol alone; it ends when stdin ends or a signal comes, and what it started ends
 * with it.
 */
import { resolve } from "node:path";
import type { PermissionMode } from "../../types/response.ts";
import type { AppFlags } from "./app-flags.ts";
import type { CommandContext } from "./context.ts";
import { untilClosed } from "./stop-signal.ts";
import { startTurn } from "./turn.ts";

declare const ROTUNDA_VERSION: string;

/** As the command line gives them. */
export interface AcpCommandOptions extends Pick<AppFlags, "config" | "model"> {
  agent?: string;
  mode?: PermissionMode;
}

export async function acp(context: CommandContext, options: AcpCommandOptions): Promise<number> {
  const { config, model, agent: profile, mode: permissions } = options;
  const named = config ?? context.environment.ROTUNDA_CONFIG;
  // Sessions work in directories of their own: the file must be the same for all of them.
  const configuration = named ? resolve(context.workspace, named) : undefined;
  const flags: AppFlags = configuration === undefined ? {} : { config: configuration };
  const door = await context.acp({
    input: process.stdin,
    output: process.stdout,
    version: ROTUNDA_VERSION,
    newApp: (workspace, change) => context.newApp(flags, workspace, change),
    base: () => context.app(flags),
    start: startTurn,
    wanted: {
      ...(profile !== undefined && { profile }),
      ...(model !== undefined && { model }),
      ...(permissions !== undefined && { permissions }),
    },
    ...(configuration !== undefined && { configuration }),
  });
  if (process.stdin.isTTY) context.streams.err("An editor starts this command and speaks to it: see docs/acp.md\n");
  return untilClosed(door);
}
