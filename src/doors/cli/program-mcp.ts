/** The command of the MCP door. */
import type { Command } from "commander";
import type { CommandContext } from "./context.ts";
import type { McpCommandOptions } from "./mcp.ts";

interface Common {
  color: boolean;
  verbose?: boolean;
  debug?: string;
}

type Act = (common: Common, run: (context: CommandContext) => Promise<number>) => Promise<void>;

/** `common` adds the options that every command has. */
export function addMcp(program: Command, act: Act, common: (command: Command) => Command): void {
  common(program.command("mcp"))
    .description("An MCP server over stdin and stdout: ask any model or agent from Claude Code, Codex, Cursor, …")
    .option("--standalone", "run everything in this process: no server in the background")
    .option("--old-names", "the Claude bridge's later tool names too: start, resume, status, cancel, query")
    .addHelpText("after", "\nIn Claude Code:  claude mcp add -s user rotunda -- rotunda mcp")
    .action(async (options: McpCommandOptions & Common) =>
      act(options, async (context) => (await import("./mcp.ts")).mcp(context, options)),
    );
}
