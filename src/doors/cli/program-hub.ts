/** Names, flags and help of the commands about MCP servers. Their code is imported when they run. */
import type { Command } from "commander";
import type { CommandContext } from "./context.ts";

/** What the command line has for every command. */
interface Wiring<Options> {
  act(options: Options, run: (context: CommandContext) => Promise<number>): Promise<void>;
  /** Adds the flags of every command. */
  common(command: Command): Command;
  /** The context, with `--config` applied. */
  configured(context: CommandContext, options: { config?: string }): Promise<CommandContext>;
}

export function addHub<Options>(program: Command, { act, common, configured }: Wiring<Options>): void {
  const hub = program.command("hub").description("MCP servers");
  common(hub.command("list", { isDefault: true }))
    .description("The configured servers and their state (also: rotunda hub)")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) => (await import("./hub.ts")).hubList(await configured(context, options), options)),
    );
  common(hub.command("test"))
    .description("Start servers and see whether they answer")
    .argument("[name]", "only this one")
    .option("--json", "as JSON")
    .action(async (name, options) =>
      act(options, async (context) =>
        (await import("./hub.ts")).hubTest(await configured(context, options), name, options),
      ),
    );
  common(hub.command("login"))
    .description("Log in to an http server with a browser (OAuth)")
    .argument("<name>", "the server")
    .option("--paste", "no browser here: print the address, and read the one that it leads to")
    .addHelpText("after", "\nExamples:\n  rotunda hub login docs\n  rotunda hub login docs --paste")
    .action(async (name, options) =>
      act(options, async (context) =>
        (await import("./hub-login.ts")).hubLogin(await configured(context, options), name, options),
      ),
    );
  common(hub.command("logout"))
    .description("Forget a login, and have the server forget it where it can")
    .argument("<name>", "the server")
    .action(async (name, options) =>
      act(options, async (context) =>
        (await import("./hub-login.ts")).hubLogout(await configured(context, options), name),
      ),
    );
}
