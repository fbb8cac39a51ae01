/** Commands of the server: serve, start, stop, restart, status. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { CommandContext } from "./context.ts";
import type { ServeOptions } from "./serve.ts";
import type { WorkerOptions } from "./worker.ts";

interface Common {
  color: boolean;
  verbose?: boolean;
  debug?: string;
}

type Act = (common: Common, run: (context: CommandContext) => Promise<number>) => Promise<void>;

type Options = ServeOptions & Common;

function port(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > 65_535) throw new InvalidArgumentError("It must be a port: 0 to 65535.");
  return value;
}

function amount(text: string): number {
  const value = Number(text);
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return value;
}

function list(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** `common` adds the options that every command has. */
export function addServe(program: Command, act: Act, common: (command: Command) => Command): void {
  const serving = (command: Command) =>
    common(command)
      .option("--host <name>", "address to listen on (default: 127.0.0.1 and ::1)")
      .option("--port <number>", "port (default: 7070; 0: any that is free)", port)
      .addOption(new Option("--auth <kind>", "token, or none (loopback only)").choices(["token", "none"]))
      .option("--cors <origins>", "origins of pages that may ask, with commas between them", list)
      .option("--allow-host <names>", "further names that it is reached by, with commas between them", list)
      .option("--behind-proxy", "a proxy in front of it ends TLS: it may listen beyond loopback")
      .option("--allow-remote-admin", "what needs the scope admin may be done from other machines")
      .option("--quiet", "no line for each request on stderr")
      .option(
        "--database <url>",
        "postgres://… (default: database of rotunda.yaml, else SQLite in the state directory)",
      )
      .option(
        "--concurrency <count>",
        "with Postgres: responses that it runs itself; 0: workers run them (default: 64)",
        amount,
      );
  serving(program.command("serve"))
    .description("Serve every OpenAI client and chat page: the HTTP doors")
    .option("--check", "only read the configuration and the flags: exit code 0 if it would start with them")
    .addHelpText("after", "\nThe token is printed by: rotunda token\nThe page is opened by: rotunda open")
    .action(async (options: Options, command: Command) =>
      act(options, async (context) => (await import("./serve.ts")).serve(context, options, flagsOf(command))),
    );
  common(program.command("worker"))
    .description("Run responses that servers accept: beside any number of servers on one Postgres database")
    .option("--database <url>", "postgres://… (default: database of rotunda.yaml)")
    .option("--concurrency <count>", "responses at once", amount, 16)
    .option("--profiles <names>", "only those of these profiles, with commas between them (default: all)", list)
    .option(
      "--health-port <number>",
      "answer GET /healthz and /readyz at this port (default: it listens nowhere)",
      port,
    )
    .option("--health-host <name>", "address of the health check", "127.0.0.1")
    .addHelpText(
      "after",
      "\nExample:\n  rotunda serve --concurrency 0 &\n  rotunda worker --concurrency 32 --health-port 8081",
    )
    .action(async (options: WorkerOptions & Common) =>
      act(options, async (context) => (await import("./worker.ts")).worker(context, options)),
    );
  serving(program.command("start"))
    .description("Serve in the background; its log is server.log in the state directory")
    .action(async (options: Options, command: Command) =>
      act(options, async (context) => (await import("./background.ts")).start(context, flagsOf(command))),
    );
  common(program.command("stop"))
    .description("Stop the server in the background, once what runs has come to its end (ten seconds at most)")
    .action(async (options: Common) =>
      act(options, async (context) => (await import("./background.ts")).stop(context)),
    );
  common(program.command("open"))
    .description("Open the page of the server in a browser, signed in by a one-time link")
    .option("--print", "only print the link: it signs in once, within 15 minutes")
    .action(async (options: Common & { print?: boolean }) =>
      act(options, async (context) => (await import("./open.ts")).openPage(context, options)),
    );
  serving(program.command("restart"))
    .description("Stop and start it; without flags, with those that it was started with")
    .action(async (options: Options, command: Command) =>
      act(options, async (context) => (await import("./background.ts")).restart(context, flagsOf(command))),
    );
  common(program.command("status"))
    .description("Whether a server runs, and where; exit code 1 if none does")
    .option("--json", "as JSON")
    .action(async (options: Common & { json?: boolean }) =>
      act(options, async (context) => (await import("./background.ts")).status(context, options)),
    );
}

/** The flags as they were written: what comes behind the command's own name. */
function flagsOf(command: Command): string[] {
  const words = command.parent?.args ?? [];
  return words.slice(words.indexOf(command.name()) + 1);
}
