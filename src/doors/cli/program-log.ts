/** Commands about what was said: log, compact. */
import type { Command } from "commander";
import type { CommandContext } from "./context.ts";

interface Common {
  color: boolean;
  verbose?: boolean;
  debug?: string;
  config?: string;
}

export interface LogParts {
  act(common: Common, run: (context: CommandContext) => Promise<number>): Promise<void>;
  /** Adds the options that every command has. */
  common(command: Command): Command;
  configured(context: CommandContext, options: { config?: string }): Promise<CommandContext>;
  count(text: string): number;
}

type LogOptions = Common & { json?: boolean; limit: number; follow?: boolean };
type CompactOptions = Common & { focus?: string; model?: string; json?: boolean };

export function addLog(program: Command, { act, common, configured, count }: LogParts): void {
  common(program.command("log"))
    .description("The tree of what was said, as an outline")
    .argument("[id]", "only the tree that holds this response; with --follow also a conversation")
    .option("--follow", "what is said now, as it is said, by whichever process (this directory's latest conversation)")
    .option("--limit <count>", "trees at most", count, 20)
    .option("--json", "as JSON; with --follow one event a line")
    .action(async (id: string | undefined, options: LogOptions) =>
      act(options, async (context) => {
        const ready = await configured(context, options);
        if (options.follow) return (await import("./follow.ts")).follow(ready, id, options);
        return (await import("./responses.ts")).log(ready, id, options);
      }),
    );
  common(program.command("compact"))
    .description("Sum up a conversation, which then goes on from the summary; nothing is lost from the tree")
    .argument("[conversation]", "its name or id (default: this directory's latest)")
    .option("--focus <text>", "what the summary must not miss")
    .option("--model <id>", "who sums it up (default: the model of its last turn)")
    .option("--json", "as JSON")
    .action(async (name: string | undefined, options: CompactOptions) =>
      act(options, async (context) =>
        (await import("./compact.ts")).compact(await configured(context, options), name, options),
      ),
    );
}
