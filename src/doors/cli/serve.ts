/**
 * `rotunda serve`: the server, in the foreground.
 *
 * Invariant: stdout has one line, and has it when requests are taken; the server file names this process exactly as
 * long as it serves. The first SIGTERM or SIGINT lets what runs come to its end, the second one ends at once.
 */
import type { App } from "../../types/app.ts";
import { toRotundaError } from "../../types/error.ts";
import { databaseFingerprint } from "../../util/fingerprint.ts";
import { readServerFile, writeServerFile } from "../../util/server-file.ts";
import type { AppFlags, ServeFlags } from "./app-flags.ts";
import type { CommandContext } from "./context.ts";
import { stopSignal } from "./stop-signal.ts";

declare const ROTUNDA_VERSION: string;

/** As the command line gives them. */
export interface ServeOptions extends AppFlags {
  host?: string;
  port?: number;
  auth?: "token" | "none";
  cors?: string[];
  allowHost?: string[];
  behindProxy?: boolean;
  allowRemoteAdmin?: boolean;
  quiet?: boolean;
  /** Only say whether it would start. */
  check?: boolean;
  /** Of a Postgres database's queue: responses that this server runs at once; 0: workers run them. */
  concurrency?: number;
}

/** Responses from the queue at once. */
const CONCURRENCY = 64;
/** Seconds from the first signal to the end, whatever still runs; of them those that streams and requests have. */
const TO_THE_END = 10;
const TO_FINISH = 8;

export async function serve(context: CommandContext, options: ServeOptions, flags: string[]): Promise<number> {
  const { out } = context.streams;
  const stop = stopSignal(TO_THE_END);
  const app = await context.app({ ...options, queued: true });
  const served = await context.serve(app, serveFlags(app, options));
  if (options.check) {
    out("The configuration and the flags are in order.\n");
    return 0;
  }
  let url: string;
  try {
    url = await served.listen();
  } catch (thrown) {
    const error = toRotundaError(thrown);
    if ((error.cause as NodeJS.ErrnoException | undefined)?.code !== "EADDRINUSE") throw error;
    const running = readServerFile(app.stateDirectory);
    const ours = running?.url.endsWith(`:${options.port ?? app.config.server.port}`);
    const why = running && ours ? `Rotunda runs already on ${running.url} (pid ${running.pid}).` : error.message;
    const remedy = ours ? "See it with rotunda status, or end it with rotunda stop." : (error.remedy ?? "");
    context.say("error", remedy === "" ? why : `${why}\n  ${remedy}`);
    return 1;
  }
  // Clients of this machine come over loopback, whatever else it listens on.
  const near = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
  const database = databaseFingerprint(app.config.database);
  const given = { url: near, version: ROTUNDA_VERSION, flags, workspace: context.workspace, database };
  const withdraw = writeServerFile(app.stateDirectory, given);
  process.once("exit", withdraw);
  if (served.open) context.say("warn", `no token is asked for: whoever reaches ${url} may do everything`);
  out(`Rotunda listening on ${url}\n`);
  // Elsewhere stderr is a log, and whoever reads it could be quicker than the person: rotunda open makes another one.
  const link = process.stderr.isTTY ? served.signInLink()?.replace(url, near) : undefined;
  if (link !== undefined) context.say("info", `The page, signed in once and within 15 minutes: ${link}`);
  try {
    const { concurrency = CONCURRENCY } = options;
    if (app.queue && concurrency > 0) await context.work(app, { concurrency });
    served
      .takeUp((text) => context.say("info", text))
      .catch((thrown: unknown) => {
        context.say("error", `what was left behind cannot be taken up: ${toRotundaError(thrown).message}`);
      });
    await stop.first;
    await served.close({ seconds: TO_FINISH });
  } finally {
    process.off("exit", withdraw);
    withdraw();
  }
  return 0;
}

function serveFlags(app: App, options: ServeOptions): ServeFlags {
  const { server } = app.config;
  return {
    host: options.host ?? server.host,
    port: options.port ?? server.port,
    auth: options.auth ?? "token",
    cors: options.cors ?? server.cors,
    hosts: options.allowHost ?? [],
    behindProxy: options.behindProxy ?? server.behindProxy,
    allowRemoteAdmin: options.allowRemoteAdmin ?? server.allowRemoteAdmin,
    bodyLimit: server.bodyLimit,
    accessLog: options.quiet !== true,
    version: ROTUNDA_VERSION,
  };
}
