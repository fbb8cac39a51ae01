/**
 * The command line: names, flags and help. Each command's code is imported when it runs.
 *
 * Invariant: whatever happens ends as an exit code of design.md 7.4, with one line that names the cause.
 */
import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { errorTable, toRotundaError } from "../../types/error.ts";
import { visible } from "../../util/text.ts";
import type { Makers } from "./app-flags.ts";
import { type CommandContext, createContext } from "./context.ts";
import type { LogFormat } from "./json-log.ts";
import { addAcp } from "./program-acp.ts";
import { addCopy } from "./program-copy.ts";
import { addHub } from "./program-hub.ts";
import { addImport } from "./program-import.ts";
import { addLog } from "./program-log.ts";
import { addMcp } from "./program-mcp.ts";
import { addServe } from "./program-serve.ts";
import { addTokens } from "./program-tokens.ts";
import type { ChatFlags } from "./request.ts";
import { inOrder, readWords } from "./words.ts";

declare const ROTUNDA_VERSION: string;

interface Common {
  color: boolean;
  verbose?: boolean;
  debug?: string;
  logFormat?: LogFormat;
}

type Run = (context: CommandContext) => Promise<number>;

type Act = (common: Common, run: Run) => Promise<void>;

/** Runs one command line; resolves with the exit code. */
export async function runCommandLine(argv: readonly string[], makers: Makers): Promise<number> {
  let exitCode = 0;
  const given = readWords(argv);
  const program = createProgram(async (common, run) => {
    exitCode = await withContext(common, makers, run);
  }, given.rest[0]);
  const words = inOrder(program, given);
  if (!Array.isArray(words)) {
    const { unknownCommand } = await import("./stumble.ts");
    process.stderr.write(unknownCommand(words.above, words.unknown));
    return 2;
  }
  try {
    await program.parseAsync(words, { from: "user" });
  } catch (error) {
    return usageError(error, words[0] ?? "");
  }
  return exitCode;
}

/**
 * All commands with their flags and help; `act` carries out the one that is called. `chat`, `serve` and `acp`, which
 * people wait for most, are built without the rest when they are `wanted`.
 */
export function createProgram(act: Act, wanted?: string): Command {
  const program = new Command("rotunda")
    .description("One agent engine, many doors, every answer a checkpoint.")
    .version(ROTUNDA_VERSION)
    .showHelpAfterError("(rotunda --help shows what there is)")
    .exitOverride()
    .configureHelp({ sortSubcommands: false });
  addChat(program, act);
  if (wanted === "chat") return program;
  addServe(program, act, common);
  if (wanted === "serve") return program;
  addAcp(program, act, common);
  if (wanted === "acp") return program;
  addMcp(program, act, common);
  if (wanted === "mcp") return program;
  addResponses(program, act);
  addApprovals(program, act);
  addTools(program, act);
  addTokens(program, { act, common, configured, number, count });
  addSetUp(program, act);
  addImport(program, act, common, configured);
  addCopy(program, { act, common, configured });
  return program;
}

async function withContext(common: Common, makers: Makers, run: Run): Promise<number> {
  const debug = (common.debug ?? "").split(",").filter((topic) => topic !== "");
  const logFormat = common.logFormat ?? "text";
  const context = createContext(makers, { color: common.color, verbose: common.verbose === true, debug, logFormat });
  try {
    return await run(context);
  } catch (thrown) {
    const error = toRotundaError(thrown);
    const { err } = context.streams;
    const json = logFormat === "json";
    context.say("error", json && error.remedy !== undefined ? `${error.message}. ${error.remedy}` : error.message);
    if (error.remedy !== undefined && !json) err(`  ${visible(error.remedy)}\n`);
    if (error.code === "internal" && debug.length > 0)
      err(`${visible(error.cause instanceof Error ? (error.cause.stack ?? "") : "")}\n`);
    return errorTable[error.code].exit;
  } finally {
    await context.close();
  }
}

/** Commander's own errors: it has printed them; help and version are no errors. */
async function usageError(error: unknown, first: string): Promise<number> {
  const { code, exitCode, message = "" } = error as { code?: string; exitCode?: number; message?: string };
  if (typeof code !== "string" || !code.startsWith("commander.")) throw error;
  if (code === "commander.unknownOption" && (first === "chat" || first.startsWith("-")))
    process.stderr.write((await import("./stumble.ts")).flagHint(message));
  return exitCode === 0 ? 0 : 2;
}

function number(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError("It must be a number from 0 up.");
  return value;
}

function count(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 1 up.");
  return Number(text);
}

function time(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError("It must be a number of seconds above 0.");
  return value;
}

const TOPICS = ["all", "llm", "tools", "mcp", "engine"];

function topics(text: string): string {
  if (text.split(",").some((topic) => !TOPICS.includes(topic)))
    throw new InvalidArgumentError(`It must be some of ${TOPICS.join(", ")}, with commas between them.`);
  return text;
}

const format = () =>
  new Option("--output-format <format>", "text, json (one object at the end) or stream-json (one event a line)")
    .choices(["text", "json", "stream-json"])
    .default("text");

function common(command: Command): Command {
  const names = [command.name()];
  for (let above = command.parent; above; above = above.parent) names.unshift(above.name());
  return command
    .showHelpAfterError(`(${names.join(" ")} --help shows what it takes)`)
    .option("--config <file>", "configuration file instead of those that are found")
    .option("--verbose", "more about what happens, on stderr")
    .option(
      "--debug [topics]",
      "everything about these topics, as --debug=llm,mcp: llm, tools, mcp, engine (default: all)",
      topics,
    )
    .addOption(
      new Option("--log-format <format>", "how things are told on stderr: text, or json (one object a line)").choices([
        "text",
        "json",
      ]),
    )
    .option("--no-color", "no colours (also: NO_COLOR)");
}

function addChat(program: Command, act: Act): void {
  common(program.command("chat"))
    .description("Ask; without a prompt and at a terminal, talk at its screen")
    .argument("[prompt...]", "what to do; piped stdin is added to it")
    .option("--model <id>", "model (rotunda models lists them)")
    .addOption(new Option("--agent <profile>", "profile that answers: general, explore, plan, execute or one of yours"))
    .addOption(new Option("--agent-type <profile>", "the same as --agent").hideHelp())
    .option("--temperature <number>", "sampling temperature", number)
    .option("--max-turns <count>", "model calls at most", count)
    .option("--timeout <seconds>", "wall time at most; exit code 124", time)
    .addOption(format())
    .addOption(
      new Option("--from <id>", "go on from this response (a branch, if it has been continued already)").conflicts([
        "continue",
        "conversation",
      ]),
    )
    .addOption(new Option("--continue", "go on with this directory's latest conversation").conflicts("conversation"))
    .option("--conversation <name>", "go on with this conversation, or begin it")
    .addOption(
      new Option("--mode <mode>", "what no rule names: ask, accept-edits, plan or auto").choices([
        "ask",
        "accept-edits",
        "plan",
        "auto",
      ]),
    )
    .option("--api-key <key>", "key for --api-base-url (better: OPENAI_API_KEY)")
    .option("--api-base-url <url>", "OpenAI-compatible endpoint")
    .option("--plain", "talk line by line, without the screen")
    .option("--no-stream", "print the answer when it is whole")
    .option("--no-parallel", "tool calls one after the other")
    .addHelpText(
      "after",
      `
Examples:
  rotunda chat "What does this project do?"
  rotunda chat --agent explore "Where are errors handled?"
  git diff | rotunda chat "Review this change" --output-format json
  rotunda chat --from k3v9 "And what if we cached it?"`,
    )
    .action(async (words: string[], options: ChatFlags & Common & { agentType?: string }) => {
      const agent = options.agent ?? options.agentType;
      const flags: ChatFlags = { ...options, verbose: options.verbose === true, ...(agent !== undefined && { agent }) };
      await act(options, async (context) => (await import("./chat.ts")).chat(context, words, flags));
    });
}

function addResponses(program: Command, act: Act): void {
  common(program.command("resume"))
    .description("Go on with a response after a crash, or with all that were left behind")
    .argument("[id]", "prefix or ending of its id, four characters or more")
    .addOption(format())
    .option("--no-stream", "print the answer when it is whole")
    .action(async (id, options) =>
      act(options, async (context) =>
        (await import("./responses.ts")).resume(await configured(context, options), id, {
          ...options,
          verbose: options.verbose === true,
        }),
      ),
    );
  addLog(program, { act, common, configured, count });
  common(program.command("show"))
    .description("Every item of a response")
    .argument("<id>", "prefix or ending of its id; a conversation, by name or id: its last answer")
    .option("--full", "outputs that were cut, whole")
    .option("--json", "as JSON")
    .action(async (id, options) =>
      act(options, async (context) =>
        (await import("./show.ts")).show(await configured(context, options), id, options),
      ),
    );
  common(program.command("cancel"))
    .description("End a response that is running or waiting")
    .argument("[id]", "prefix or ending of its id")
    .option("--all", "every one")
    .action(async (id, options) =>
      act(options, async (context) =>
        (await import("./responses.ts")).cancel(await configured(context, options), id, options),
      ),
    );
}

function addApprovals(program: Command, act: Act): void {
  common(program.command("approvals"))
    .description("What waits for a person")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./approvals.ts")).approvals(await configured(context, options), options),
      ),
    );
  for (const [name, decision] of [
    ["approve", "allow"],
    ["deny", "deny"],
  ] as const) {
    common(program.command(name))
      .description(decision === "allow" ? "Allow a call, and go on" : "Refuse a call, and go on")
      .argument("<id>", "prefix or ending of the approval's id")
      .addOption(
        new Option("--scope <scope>", "how far it reaches").choices(["once", "session", "always"]).default("once"),
      )
      .option("--reason <text>", "for the model")
      .option("--no-resume", "only answer; go on later with rotunda resume")
      .addOption(format())
      .option("--no-stream", "print the answer when it is whole")
      .action(async (id, options) =>
        act(options, async (context) =>
          (await import("./approvals.ts")).decide(await configured(context, options), id, decision, {
            ...options,
            verbose: options.verbose === true,
          }),
        ),
      );
  }
}

function addTools(program: Command, act: Act): void {
  common(program.command("tools"))
    .description("What models can call")
    .option("--agent <profile>", "only what this profile offers")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) => (await import("./tools.ts")).tools(await configured(context, options), options)),
    );
  common(program.command("call"))
    .description("Call a tool without a model")
    .argument("<tool>", "its name, as rotunda tools shows it")
    .argument("[json]", "its arguments as one JSON object")
    .option("--json", "the whole result as JSON")
    .addHelpText("after", `\nExample:\n  rotunda call grep '{"pattern":"TODO","path":"src"}'`)
    .action(async (tool, json, options) =>
      act(options, async (context) =>
        (await import("./tools.ts")).call(await configured(context, options), tool, json, options),
      ),
    );
  common(program.command("models"))
    .description("Who can answer: configured, found by key variables, found on this machine")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) => (await import("./tools.ts")).models(await configured(context, options), options)),
    );
  addPermissions(program, act);
  addHub(program, { act, common, configured });
}

function addPermissions(program: Command, act: Act): void {
  const permissions = program.command("permissions").description("The rules in force, and what they say to a call");
  common(permissions.command("list"))
    .description("The rules in force, those learned from answers included")
    .option("--forget <rule>", "take back a learned rule, by its id")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) =>
        (await import("./tools.ts")).permissions(await configured(context, options), options),
      ),
    );
  common(permissions.command("test"))
    .description("What the rules say to a call, without making it; exit code 0 allow, 3 ask, 1 deny")
    .argument("<tool>", "its name")
    .argument("[json]", "its arguments as one JSON object")
    .option("--agent <profile>", "for this profile")
    .addOption(new Option("--mode <mode>", "in this mode").choices(["ask", "accept-edits", "plan", "auto"]))
    .option("--json", "as JSON")
    .addHelpText("after", `\nExample:\n  rotunda permissions test bash '{"command":"git push"}'`)
    .action(async (tool, json, options) =>
      act(options, async (context) =>
        (await import("./tools.ts")).permissionsTest(await configured(context, options), tool, json, options),
      ),
    );
}

function addSetUp(program: Command, act: Act): void {
  common(program.command("trust"))
    .description("Let this directory's files start the processes that they name")
    .argument("[path]", "a file, or a directory (default: this one)")
    .option("--yes", "do not ask")
    .option("--list", "what is trusted")
    .addOption(new Option("--revoke", "trust it no longer").conflicts("list"))
    .action(async (path, options) =>
      act(options, async (context) => (await import("./set-up.ts")).trust(context, path, options)),
    );
  common(program.command("doctor"))
    .description("What works here, what does not, and the line that mends it; the database, page by page")
    .option("--repair", "take out of the database what is damaged, keep it aside, and serve the rest")
    .option("--online", "ask each model's endpoint for its list of models (GET /models): is it there, is the key right")
    .option("--json", "as JSON")
    .action(async (options) => act(options, async (context) => (await import("./doctor.ts")).doctor(context, options)));
  common(program.command("setup"))
    .description("What there is to work with on this machine, and what can be taken over from other programs")
    .action(async (options) => act(options, async (context) => (await import("./first-run.ts")).setup(context)));
  common(program.command("init"))
    .description("Write a commented rotunda.yaml")
    .option("--force", "over one that is there")
    .action(async (options) => act(options, async (context) => (await import("./set-up.ts")).init(context, options)));
  common(program.command("completion"))
    .description("Print a script that completes commands and flags in a shell")
    .addArgument(new Argument("<shell>", "bash, zsh or fish").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", "\nExample:\n  rotunda completion bash > ~/.local/share/bash-completion/completions/rotunda")
    .action(async (shell, options) =>
      act(options, async (context) => (await import("./completion.ts")).completion(context, program, shell)),
    );
  const config = program.command("config").description("The configuration in force");
  common(config.command("show"))
    .description("The configuration in force, secrets masked")
    .option("--origin", "where each value comes from")
    .option("--json", "as JSON")
    .action(async (options) =>
      act(options, async (context) => (await import("./set-up.ts")).configShow(context, options)),
    );
}

/** `--config` shapes the app, so it must be there before the command first asks for it. */
async function configured(context: CommandContext, options: { config?: string }): Promise<CommandContext> {
  await context.app(options.config === undefined ? {} : { config: options.config });
  return context;
}
