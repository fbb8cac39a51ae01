/**
 * What every command has at hand: streams, styles, environment, the app when it is needed.
 *
 * Invariant: the app is built at most once, and closed before the command ends.
 */
import { resolve } from "node:path";
import type { App, SetUp } from "../../types/app.ts";
import type { DatabaseDoctor } from "../../types/doctor.ts";
import type { Approver } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { Notice } from "../../types/event.ts";
import type { ResponseNode } from "../../types/response.ts";
import { databaseFingerprint } from "../../util/fingerprint.ts";
import { readServerFile } from "../../util/server-file.ts";
import { visible } from "../../util/text.ts";
import type {
  AcpFlags,
  AppFlags,
  ChangeConfig,
  Makers,
  McpFlags,
  OpenAcp,
  OpenDatabase,
  OpenMcp,
  OpenWorker,
  Served,
  ServeFlags,
  TerminalFlags,
  WorkFlags,
} from "./app-flags.ts";
import { jsonLine, type LogFormat, noticeLine } from "./json-log.ts";
import type { Streams } from "./printer.ts";
import { styleFor } from "./style.ts";

export interface CommandContext {
  environment: NodeJS.ProcessEnv;
  workspace: string;
  streams: Streams;
  /** A person can be asked. */
  interactive: boolean;
  app(flags?: AppFlags): Promise<App>;
  /** The app for a response that was started elsewhere: its own directory's configuration holds, not this one's. */
  appFor(node: Pick<ResponseNode, "workspace" | "settings">): Promise<App>;
  setUp(): Promise<SetUp>;
  /** One line for whoever runs the program, on stderr. */
  say(level: Notice["level"], text: string): void;
  doctor(): Promise<DatabaseDoctor>;
  /** A database beside the app's, to be closed by whoever asks (see `Makers`). */
  database(address: string, wanted: "there" | "made"): Promise<OpenDatabase>;
  /** Makes the HTTP door; it does not listen yet. */
  serve(app: App, flags: ServeFlags): Promise<Served>;
  /** Begins to run what is in the app's queue. Throws `usage` where it has none. */
  work(app: App, flags: WorkFlags): Promise<OpenWorker>;
  /** An app of a directory that is its caller's alone, to be closed there. */
  newApp(flags: AppFlags, workspace: string, change: ChangeConfig): Promise<App>;
  acp(flags: AcpFlags): Promise<OpenAcp>;
  mcp(flags: McpFlags): Promise<OpenMcp>;
  terminal(flags: TerminalFlags): Promise<number>;
  /** While somebody hears them, news about runs are not written to stderr. */
  hear(listener: ((notice: Notice) => void) | undefined): void;
  close(): Promise<void>;
}

export interface ContextOptions {
  color: boolean;
  verbose: boolean;
  /** Topics of `--debug`; empty: none. */
  debug: readonly string[];
  /** How things are told on stderr. */
  logFormat: LogFormat;
}

const OTHER_DATABASE =
  "the server of this machine works on another database than this command: what one of them stores the other does not " +
  "see. Name one for both: database: … in rotunda.yaml, or ROTUNDA_DATABASE";

export function createContext(makers: Makers, options: ContextOptions): CommandContext {
  const { env: environment } = process;
  const streams: Streams = {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    outStyle: styleFor(process.stdout, environment, options.color),
    errStyle: styleFor(process.stderr, environment, options.color),
    terminal: process.stdout.isTTY === true,
  };
  let made: Promise<App> | undefined;
  let given: AppFlags = {};
  let heard: ((notice: Notice) => void) | undefined;
  const hearing = (notice: Notice) => (heard ? heard(notice) : tell(notice, streams, options));
  const others = new Map<string, Promise<App>>();
  const workspace = process.cwd();
  return {
    environment,
    workspace,
    streams,
    interactive: process.stdin.isTTY === true && process.stderr.isTTY === true,
    app(flags = {}) {
      if (made) return made;
      given = flags;
      made = makers.app(flags, hearing, workspace).then((app) => {
        const server = flags.queued ? undefined : readServerFile(app.stateDirectory);
        const same = !server || server.database === databaseFingerprint(app.config.database);
        if (!same) hearing({ responseId: null, level: "warn", topic: "config", text: OTHER_DATABASE });
        return app;
      });
      return made;
    },
    async appFor(node) {
      const { configuration } = node.settings;
      const here = await this.app();
      const named = environment.ROTUNDA_CONFIG;
      const ours =
        configuration === undefined ||
        given.config !== undefined ||
        (named !== undefined && configuration === resolve(workspace, named));
      if (node.workspace === workspace && ours) return here;
      const key = `${node.workspace}\n${configuration ?? ""}`;
      const config = given.config ?? configuration;
      const { database, queued } = given;
      const flags: AppFlags = {
        ...(config !== undefined && { config }),
        ...(database !== undefined && { database }),
        ...(queued && { queued }),
      };
      const app = others.get(key) ?? makers.app(flags, (notice) => tell(notice, streams, options), node.workspace);
      others.set(key, app);
      // Its files may be mended by the next time.
      app.catch(() => others.delete(key));
      return app;
    },
    setUp: () => makers.setUp(),
    say(level, text) {
      const { errStyle } = streams;
      const names = {
        error: `${errStyle.red("rotunda:")} `,
        warn: `${errStyle.yellow("Warning:")} `,
        info: "",
        debug: "",
      };
      streams.err(options.logFormat === "json" ? jsonLine(level, text) : `${names[level]}${visible(text)}\n`);
    },
    doctor: () => makers.doctor(),
    database: (address, wanted) => makers.database(address, wanted),
    serve(app, flags) {
      return makers.serve(app, flags, (directory, configuration) =>
        this.appFor({ workspace: directory, settings: configuration === undefined ? {} : { configuration } }),
      );
    },
    work(app, flags) {
      const say = (text: string) => streams.err(`${visible(text)}\n`);
      return makers.work(app, flags, (node) => this.appFor(node), say);
    },
    newApp(flags, directory, change) {
      return makers.app(flags, (notice) => tell(notice, streams, options), directory, change);
    },
    acp: (flags) => makers.acp(flags),
    mcp: (flags) => makers.mcp(flags),
    terminal: (flags) => makers.terminal(flags),
    hear(listener) {
      heard = listener;
    },
    async close() {
      // An app that could not be built has been told of, and has nothing to close.
      for (const one of [made, ...others.values()]) await (await one?.catch(() => undefined))?.close();
    },
  };
}

function tell(notice: Notice, streams: Streams, { verbose, debug, logFormat }: ContextOptions): void {
  if (logFormat === "json") {
    // Whoever reads it is a program: the course of each response is told as well.
    const wanted = notice.level !== "debug" || notice.topic === "engine" || topicWanted(notice, debug);
    if (wanted) streams.err(noticeLine(notice));
    return;
  }
  const wanted =
    notice.level === "error" ||
    notice.level === "warn" ||
    (notice.level === "info" && (verbose || notice.itemId)) ||
    topicWanted(notice, debug);
  if (!wanted) return;
  const time = new Date().toTimeString().slice(0, 8);
  const prefix = verbose || debug.length > 0 ? `${time} [${notice.level.toUpperCase()}] ` : "";
  streams.err(`${streams.errStyle.dim(prefix)}${visible(notice.text)}\n`);
}

function topicWanted(notice: Notice, debug: readonly string[]): boolean {
  return debug.includes(notice.topic) || debug.includes("all");
}

/** The person at this terminal, if there is one. */
export async function approverFor(context: CommandContext): Promise<Approver | undefined> {
  if (!context.interactive) return undefined;
  const { terminalApprover } = await import("./terminal.ts");
  return terminalApprover({ input: process.stdin, output: process.stderr, style: context.streams.errStyle });
}

export interface Interrupt {
  /** Aborted by the first Ctrl-C; the second one leaves at once. */
  signal: AbortSignal;
  /** SIGTERM or SIGHUP came: what runs was left so that it can be resumed. */
  terminated(): boolean;
  dispose(): void;
}

/** Listens to the signals that end a turn. */
export function interruptible(app: App): Interrupt {
  const controller = new AbortController();
  let terminated = false;
  const onInterrupt = () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort("interrupt");
  };
  const onTerminate = () => {
    if (terminated) process.exit(143);
    terminated = true;
    app.engine.stop().catch(() => undefined);
  };
  const listeners = { SIGINT: onInterrupt, SIGTERM: onTerminate, SIGHUP: onTerminate } as const;
  for (const [name, listener] of Object.entries(listeners)) process.on(name as NodeJS.Signals, listener);
  return {
    signal: controller.signal,
    terminated: () => terminated,
    dispose() {
      for (const [name, listener] of Object.entries(listeners)) process.off(name as NodeJS.Signals, listener);
    },
  };
}

/** Milliseconds that a prompt waits for company from stdin: a shell's pipe always ends, a program's may never. */
const PIPE_PATIENCE = 3_000;
const SOCKET_PATIENCE = 25;
const MAXIMUM_INPUT = 50_000_000;

/**
 * All of piped stdin; empty where stdin is a terminal or nothing at all. With `optional` (there is a prompt
 * already) a stdin that stays silent is left alone.
 */
export async function readPipedInput(optional: boolean): Promise<string> {
  if (process.stdin.isTTY) return "";
  const { fstatSync } = await import("node:fs");
  const stat = fstatSync(0);
  if (!stat.isFIFO() && !stat.isFile() && !stat.isSocket()) return "";
  const patience = stat.isSocket() ? SOCKET_PATIENCE : PIPE_PATIENCE;
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const giveUp = setTimeout(() => finish(), patience);
    if (!optional) clearTimeout(giveUp);
    const finish = () => {
      clearTimeout(giveUp);
      process.stdin.off("data", onData).off("end", finish).off("error", reject);
      process.stdin.destroy();
      resolve(Buffer.concat(chunks).toString("utf8"));
    };
    const onData = (chunk: Buffer) => {
      clearTimeout(giveUp);
      chunks.push(chunk);
      size += chunk.length;
      if (size > MAXIMUM_INPUT) reject(new RotundaError("usage", "stdin is longer than 50 MB"));
    };
    process.stdin.on("data", onData).on("end", finish).on("error", reject);
  });
}
