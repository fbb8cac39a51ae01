/** The command of the ACP door. */
import { type Command, Option } from "commander";
import type { AcpCommandOptions } from "./acp.ts";
import type { CommandContext } from "./context.ts";

interface Common {
  color: boolean;
  verbose?: boolean;
  debug?: string;
}

type Act = (common: Common, run: (context: CommandContext) => Promise<number>) => Promise<void>;

/** `common` adds the options that every command has. */
export function addAcp(program: Command, act: Act, common: (command: Command) => Command): void {
  common(program.command("acp"))
    .description("The agent of an editor (Zed, and every client of the Agent Client Protocol), over stdin and stdout")
    .option("--agent <profile>", "profile that sessions begin with")
    .option("--model <id>", "model that sessions begin with")
    .addOption(
      new Option("--mode <mode>", "what no rule names: ask, accept-edits, plan or auto").choices([
        "ask",
        "accept-edits",
        "plan",
        "auto",
      ]),
    )
    .action(async (options: AcpCommandOptions & Common) =>
      act(options, async (context) => (await import("./acp.ts")).acp(context, options)),
    );
}
