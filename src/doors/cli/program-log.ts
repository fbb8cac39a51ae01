/** Commands about what was said: log, search, compact, delete. */
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
type SearchOptions = Common & { all?: boolean; json?: boolean; limit: number };
type DeleteOptions = Common & { yes?: boolean; json?: boolean };
type CompactOptions = Common & { focus?: string; model?: string; json?: boolean };

export function addLog(program: Command, parts: LogParts): void {
  const { act, common, configured, count } = parts;
  common(program.command("log"))
    .description("The trees of what was said, as outlines; that which was spoken in last at the end")
    .argument("[id]", "only the tree that holds this response, or this conversation (by name or id)")
    .option("--follow", "what is said now, as it is said, by whichever process (this directory's latest conversation)")
    .option("--limit <count>", "trees at most", count, 20)
    .option("--json", "as JSON; with --follow one event a line")
    .addHelpText("after", "\nExamples:\n  rotunda log --limit 5\n  rotunda log notes\n  rotunda log --follow")
    .action(async (id: string | undefined, options: LogOptions) =>
      act(options, async (context) => {
        const ready = await configured(context, options);
        if (options.follow) return (await import("./follow.ts")).follow(ready, id, options);
        return (await import("./responses.ts")).log(ready, id, options);
      }),
    );
  addSearch(program, parts);
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
  addDelete(program, parts);
}

function addSearch(program: Command, { act, common, configured, count }: LogParts): void {
  common(program.command("search"))
    .description("Where something was said, the newest first")
    .argument("<words...>", "all of them stand in what is found; case does not matter")
    .option("--all", "reasoning, tool calls and their outputs as well")
    .option("--limit <count>", "hits at most", count, 20)
    .option("--json", "as JSON")
    .addHelpText("after", "\nExamples:\n  rotunda search heron\n  rotunda search --all TODO parser --limit 50")
    .action(async (words: string[], options: SearchOptions) =>
      act(options, async (context) =>
        (await import("./search.ts")).search(await configured(context, options), words, options),
      ),
    );
}

function addDelete(program: Command, { act, common, configured }: LogParts): void {
  common(program.command("delete"))
    .description("Delete responses, or whole conversations, and erase what was said in them")
    .argument("<id...>", "prefix or ending of a response's id; a conversation, by name or id: all its responses")
    .option("--yes", "do not ask (where there is no terminal, it is needed)")
    .option("--json", "what was deleted, as JSON")
    .addHelpText("after", "\nExamples:\n  rotunda delete k3v9a4m2\n  rotunda delete notes drafts --yes")
    .action(async (words: string[], options: DeleteOptions) =>
      act(options, async (context) =>
        (await import("./delete.ts")).deleteNamed(await configured(context, options), words, options),
      ),
    );
}
