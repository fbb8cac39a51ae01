/** The commands `export` and `move`: their words, flags and help. */
import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import type { ExportFlags } from "./export.ts";
import type { MoveFlags } from "./move.ts";

type Common = { color: boolean; verbose?: boolean; debug?: string; config?: string };

export interface CopyParts {
  act(common: Common, run: (context: CommandContext) => Promise<number>): Promise<void>;
  /** Adds the flags that every command takes. */
  common(command: Command): Command;
  configured(context: CommandContext, options: { config?: string }): Promise<CommandContext>;
}

export function addCopy(program: Command, { act, common, configured }: CopyParts): void {
  common(program.command("export"))
    .description("Write a conversation, a tree or everything to a file, which rotunda import reads anywhere")
    .argument("[what]", "a conversation or a response, by name or id (default: this directory's latest conversation)")
    .option("--all", "everything: also tokens, learned rules, budgets, schedules and the audit log")
    .option("--tree", "not only the path to it, but the whole tree that it belongs to")
    .option("--output <file>", "where to; - is stdout")
    .option("--json", "what was written, as JSON")
    .addHelpText(
      "after",
      `
Examples:
  rotunda export work --output work.jsonl
  rotunda export --all --output everything.jsonl
  rotunda export k3v9 --tree | ssh other rotunda import -`,
    )
    .action(async (wanted: string | undefined, options: Common & ExportFlags) =>
      act(options, async (context) =>
        (await import("./export.ts")).exportTo(await configured(context, options), wanted, options),
      ),
    );
  common(program.command("move"))
    .description("Copy everything, or one conversation, from one database to another, and read it back")
    .argument("[what]", "a conversation or a response, by name or id (default: everything)")
    .requiredOption("--to <database>", "postgres://…, sqlite (this machine's own), or the path of a SQLite file")
    .option("--from <database>", "the same (default: the configured one)")
    .option("--tree", "not only the path to it, but the whole tree that it belongs to")
    .option("--json", "what came along, as JSON")
    .addHelpText(
      "after",
      `
Examples:
  rotunda move --to postgres://rotunda:secret@db.internal/rotunda
  rotunda move --from postgres://rotunda:secret@db.internal/rotunda --to sqlite work
  rotunda move --to /media/backup/rotunda.db`,
    )
    .action(async (wanted: string | undefined, options: Common & MoveFlags) =>
      act(options, async (context) => {
        const ready = options.from === undefined ? await configured(context, options) : context;
        return (await import("./move.ts")).move(ready, wanted, options);
      }),
    );
}
