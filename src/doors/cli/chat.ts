/** `rotunda chat`: a one-shot turn, or a line-by-line conversation at a terminal. */
import { RotundaError } from "../../types/error.ts";
import { counted, visible } from "../../util/text.ts";
import { type CommandContext, interruptible, readPipedInput } from "./context.ts";
import { type ChatFlags, requestFor, turnOptions } from "./request.ts";
import { followTurn, startTurn } from "./turn.ts";

/** Resolves with the exit code. */
export async function chat(context: CommandContext, words: readonly string[], flags: ChatFlags): Promise<number> {
  // Both take a moment, so they go on beside each other; the app's failure is told when it is asked for.
  const input = readPipedInput(words.length > 0);
  if (words.length > 0) context.app(flags).catch(() => undefined);
  const piped = await input;
  const prompt = [words.join(" "), piped.trim()].filter((text) => text.trim() !== "").join("\n\n");
  if (prompt === "") {
    if (!context.interactive || flags.outputFormat !== "text") {
      throw new RotundaError("usage", "there is no prompt", {
        remedy: 'Give one: rotunda chat "…", or pipe it in: rotunda chat < question.txt',
      });
    }
    const { isFirstRun, welcome } = await import("./first-run.ts");
    if (await isFirstRun(context)) await welcome(context);
    if (!flags.plain && context.streams.terminal && context.environment.TERM !== "dumb") {
      const { openScreen } = await import("./open-screen.ts");
      return openScreen(context, flags);
    }
    const { converse } = await import("./converse.ts");
    return converse(context, flags);
  }
  const app = await context.app(flags);
  const interrupt = interruptible(app);
  try {
    const started = await startTurn(app, await requestFor(context, flags, prompt));
    if (flags.verbose) await tellConfiguration(context, flags, started.model);
    return (await followTurn(app, started, turnOptions(context, flags, interrupt))).exitCode;
  } finally {
    interrupt.dispose();
  }
}

/** What Finta printed at its start (parity F3, F18), keys masked further. */
async function tellConfiguration(context: CommandContext, flags: ChatFlags, model: string): Promise<void> {
  const app = await context.app();
  const { mask } = await import("../../util/secrets.ts");
  const { err } = context.streams;
  const profile = flags.agent ?? app.config.defaultProfile;
  const tools = await app.engine.tools(profile);
  err("🚀 Session Started\nConfiguration:\n");
  err(`  Model: ${visible(model)}\n  Agent: ${profile}\n  Workspace: ${visible(context.workspace)}\n`);
  const configured = app.config.models.find((one) => one.id === model);
  if (configured) err(`  Base URL: ${visible(configured.baseUrl)}\n`);
  if (configured?.apiKey !== undefined) err(`  API key: ${mask(configured.apiKey)}\n`);
  err(`Registered ${counted(tools.length, "tool")}: ${tools.map((tool) => tool.name).join(", ")}\n`);
  for (const server of (await app.hub())?.servers() ?? []) {
    if (server.state === "failed" || server.state === "needs_login")
      err(`MCP server ${visible(server.name)} ${server.state}: ${visible(server.error ?? "no reason given")}\n`);
  }
}
