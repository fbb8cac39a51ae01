/** Commands about MCP servers: hub list, hub test. */
import type { HubServerView } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import { counted, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

function remedyOf({ state, name }: HubServerView): string {
  return state === "needs_login" ? `  rotunda hub login ${visible(name)}` : "";
}

export async function hubList(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const servers = (await app.hub())?.servers() ?? [];
  if (flags.json) {
    context.streams.out(`${JSON.stringify(servers)}\n`);
    return 0;
  }
  if (servers.length === 0 && !app.config.leftOut?.some(({ kind }) => kind === "server"))
    context.streams.err("No MCP server is configured. Add one under mcpServers: in rotunda.yaml.\n");
  for (const server of servers) {
    const error = server.error ? `  ${visible(server.error)}` : remedyOf(server);
    context.streams.out(
      `${visible(server.name)}  ${server.transport}  ${server.state}  ${counted(server.toolCount, "tool")}${error}\n`,
    );
  }
  return 0;
}

/** Starts servers for real and says what came of it. Exit code 1 if any failed. */
export async function hubTest(
  context: CommandContext,
  name: string | undefined,
  flags: { json?: boolean },
): Promise<number> {
  const app = await context.app();
  const hub = await app.hub();
  const used = (hub?.servers() ?? []).filter((server) => server.enabled);
  const left = app.config.leftOut?.find((one) => one.kind === "server" && one.name === name);
  if (left) {
    const { why, remedy } = left;
    throw new RotundaError("not_found", `the MCP server ${left.name} is left out: ${why}`, { remedy: `${remedy}.` });
  }
  const names = name === undefined ? used.map((server) => server.name) : [name];
  if (!hub || names.length === 0) throw new RotundaError("not_found", "no MCP server is configured");
  context.streams.err(`Starting ${visible(names.join(", "))} …\n`);
  const tested = await Promise.all(names.map((one) => hub.test(one)));
  if (flags.json) context.streams.out(`${JSON.stringify(tested)}\n`);
  else {
    for (const { name: server, state, toolCount, error } of tested) {
      context.streams.out(
        `${state === "healthy" ? "✓" : "✗"} ${visible(server)}  ${state}  ${counted(toolCount, "tool")}  ${visible(error ?? "")}\n`,
      );
    }
  }
  return tested.every((server) => server.state === "healthy") ? 0 : 1;
}
