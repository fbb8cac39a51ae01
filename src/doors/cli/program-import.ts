/** The command `import`: its words, flags and help. */
import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import type { ImportFlags } from "./import.ts";

type Common = { color: boolean; verbose?: boolean; debug?: string; config?: string };
type Act = (common: Common, run: (context: CommandContext) => Promise<number>) => Promise<void>;

/** Adds it; `common` adds the flags that every command takes, `configured` makes the app with them. */
export function addImport(
  program: Command,
  act: Act,
  common: (command: Command) => Command,
  configured: (context: CommandContext, options: Common) => Promise<CommandContext>,
): void {
  common(program.command("import"))
    .description(
      "Take over what rotunda export wrote, or what SpeakMCP, Polybrain, Finta, Claude, Codex, Cursor, … left",
    )
    .argument("[path]", "an export (- is stdin), SpeakMCP's folder, or a file of any of them; none: what is found here")
    .option("--dry-run", "only say what would be taken over")
    .option("--content-only", "of an export only responses and conversations: no tokens, rules, schedules, budgets")
    .option("--json", "as JSON")
    .addHelpText("after", "\nExamples:\n  rotunda import work.jsonl\n  rotunda import ~/.config/app.speakmcp --dry-run")
    .action(async (path: string | undefined, options: Common & ImportFlags) =>
      act(options, async (context) => {
        if (path === undefined) return (await import("./first-run.ts")).setup(context);
        return (await import("./import.ts")).importFrom(await configured(context, options), path, options);
      }),
    );
}
