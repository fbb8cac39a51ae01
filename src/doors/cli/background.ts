/**
 * `rotunda start|stop|restart|status`: the server, in the background.
 *
 * Invariant: a signal is sent only to a process that the server file names and whose start time is the one that it
 * had when it wrote it; so never to a process that has come by the same pid. A restart ends the old server only when the
 * new one would start.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { lockFile } from "../../util/file-lock.ts";
import { withoutInherited } from "../../util/inherited-descriptors.ts";
import { makeDirectory } from "../../util/make-directory.ts";
import { nodeHttp } from "../../util/node-http.ts";
import { processState } from "../../util/process-name.ts";
import { readServerFile, type ServerFile } from "../../util/server-file.ts";
import { visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

/** Milliseconds. */
const LOOK = 25;
const START = 20_000;
/** A server ends within ten seconds; then it is told to end at once, and then it is ended. */
const ENDS = [12_000, 2_000, 2_000] as const;
const SIGNALS = ["SIGTERM", "SIGTERM", "SIGKILL"] as const;

const MAXIMUM_LOG = 10_000_000;
/** Characters of what a server says at its start. */
const SAID = 20_000;
/** How the line on stdout begins (serve.ts). */
const LISTENING = "Rotunda listening on ";

export async function start(context: CommandContext, flags: readonly string[]): Promise<number> {
  const { stateDirectory } = await context.setUp();
  const running = readServerFile(stateDirectory);
  if (running) {
    context.streams.out(`Rotunda runs already on ${running.url} (pid ${running.pid})\n`);
    if (flags.length > 0) {
      context.streams.err(
        `It keeps the flags that it was started with. With these: rotunda restart ${visible(flags.join(" "))}\n`,
      );
    }
    return 0;
  }
  return launch(context, stateDirectory, flags, context.workspace);
}

interface Launched {
  /** The server that runs now; `own`: it is the one that was launched. */
  server: ServerFile | undefined;
  own: boolean;
  /** Path of the log, and what the new server has written there until it served, or ended. */
  log: string;
  said: string;
}

/** Starts one in the background. Of several that start at once the one that gets the port stays, and all find it. */
export async function launchServer(
  stateDirectory: string,
  flags: readonly string[],
  workspace: string,
): Promise<Launched> {
  const path = join(stateDirectory, "server.log");
  makeDirectory(stateDirectory, 0o700);
  const unlock = await lockFile(join(stateDirectory, "server.lock"), { patience: 2 * START, age: 2 * START });
  try {
    const running = readServerFile(stateDirectory);
    if (running) return { server: running, own: false, log: path, said: "" };
    return await spawnServer(stateDirectory, flags, workspace, path);
  } finally {
    unlock();
  }
}

async function spawnServer(
  stateDirectory: string,
  flags: readonly string[],
  workspace: string,
  path: string,
): Promise<Launched> {
  const { descriptor, end } = openLog(stateDirectory, path);
  // What the shell of whoever starts it has open (a lock file, say) is not kept open by the server.
  const { stdio, close } = withoutInherited(["ignore", descriptor, descriptor]);
  const child = spawn(process.execPath, [process.argv[1] ?? "", "serve", ...flags], {
    cwd: workspace,
    detached: true,
    stdio,
  });
  close();
  closeSync(descriptor);
  let exited = false;
  child.once("exit", () => {
    exited = true;
  });
  child.once("error", () => {
    exited = true;
  });
  for (let passed = 0; passed < START && !exited; passed += LOOK) {
    const server = readServerFile(stateDirectory);
    if (server && server.pid === child.pid) {
      child.unref();
      return { server, own: true, log: path, said: await saidAtStart(path, end) };
    }
    await wait(LOOK);
  }
  const other = exited ? await otherServer(stateDirectory) : undefined;
  if (!exited) child.kill("SIGKILL");
  return { server: other, own: false, log: path, said: readFrom(path, end) };
}

/** What stands in front of the line that it listens, which comes right behind the server file. */
async function saidAtStart(path: string, from: number): Promise<string> {
  for (let passed = 0; ; passed += LOOK) {
    const lines = readFrom(path, from).split("\n");
    const listens = lines.findIndex((line) => line.startsWith(LISTENING));
    if (listens >= 0 || passed >= 1_000) return lines.slice(0, listens < 0 ? undefined : listens).join("\n");
    await wait(LOOK);
  }
}

/** Whoever has the port may be about to say so. */
async function otherServer(stateDirectory: string): Promise<ServerFile | undefined> {
  for (let passed = 0; passed < 1_000; passed += LOOK) {
    const other = readServerFile(stateDirectory);
    if (other) return other;
    await wait(LOOK);
  }
  return undefined;
}

async function launch(
  context: CommandContext,
  stateDirectory: string,
  flags: readonly string[],
  workspace: string,
): Promise<number> {
  const { out, err, errStyle } = context.streams;
  const { server, own, log, said } = await launchServer(stateDirectory, flags, workspace);
  if (server) {
    const { url, pid } = server;
    // In the log alone nobody would see what it was started without.
    if (said !== "") err(`${visible(said)}\n`);
    out(own ? `${LISTENING}${url} (pid ${pid}, log ${log})\n` : `Rotunda runs already on ${url} (pid ${pid})\n`);
    if (process.stderr.isTTY) await tellLink(context, stateDirectory);
    return 0;
  }
  err(`${errStyle.red("rotunda:")} the server did not start; its log is ${log}\n`);
  err(`${visible(said)}\n`);
  return 1;
}

/** Elsewhere stderr may be kept by somebody. */
async function tellLink(context: CommandContext, stateDirectory: string): Promise<void> {
  const { signInLink } = await import("./open.ts");
  const link = await signInLink(stateDirectory).catch(() => undefined);
  if (link !== undefined) context.say("info", `The page, signed in once and within 15 minutes: ${link}`);
}

/** Appends; what is beyond ten megabytes is kept aside once. */
function openLog(stateDirectory: string, path: string): { descriptor: number; end: number } {
  makeDirectory(stateDirectory, 0o700);
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const full = size > MAXIMUM_LOG;
  if (full) renameSync(path, `${path}.1`);
  return { descriptor: openSync(path, "a", 0o600), end: full ? 0 : size };
}

function readFrom(path: string, position: number): string {
  const descriptor = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(SAID);
    return bytes.toString("utf8", 0, readSync(descriptor, bytes, 0, bytes.length, position)).trim();
  } finally {
    closeSync(descriptor);
  }
}

export async function stop(context: CommandContext): Promise<number> {
  const { out, err, errStyle } = context.streams;
  const { stateDirectory } = await context.setUp();
  const server = readServerFile(stateDirectory);
  if (!server) {
    out("No server is running\n");
    return 0;
  }
  if (await end(server)) {
    out(`Stopped (pid ${server.pid})\n`);
    return 0;
  }
  err(`${errStyle.red("rotunda:")} the server (pid ${server.pid}) does not end\n`);
  return 1;
}

/** True when the process is gone. */
async function end(server: ServerFile): Promise<boolean> {
  const lives = () => processState(server.process) === "alive";
  for (const [index, signal] of SIGNALS.entries()) {
    if (!lives()) return true;
    try {
      process.kill(server.pid, signal);
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ESRCH";
    }
    for (let passed = 0; passed < (ENDS[index] ?? 0) && lives(); passed += LOOK) await wait(LOOK);
  }
  return !lives();
}

/**
 * Without flags it starts with those, and in that directory, with which it ran. Exit code of the check where the new one
 * would not start: then the old one goes on.
 */
export async function restart(context: CommandContext, flags: readonly string[]): Promise<number> {
  const { stateDirectory } = await context.setUp();
  const server = readServerFile(stateDirectory);
  const wanted = server !== undefined && flags.length === 0 ? server.flags : flags;
  const workspace = server?.workspace ?? context.workspace;
  if (server) {
    const { err } = context.streams;
    const { code, said } = await check(wanted, workspace);
    if (code !== 0) {
      context.say(
        "error",
        `the server on ${server.url} (pid ${server.pid}) goes on as it was: a new one would not start`,
      );
      if (said !== "") err(`${visible(said)}\n`);
      return code;
    }
    if (!(await end(server))) {
      context.say("error", `the server (pid ${server.pid}) does not end`);
      return 1;
    }
  }
  const code = await launch(context, stateDirectory, wanted, workspace);
  if (code === 0 || !server || flags.length === 0) return code;
  context.say("warn", "so the old one is started again, with the flags that it had");
  await launch(context, stateDirectory, server.flags, workspace);
  return code;
}

/** `rotunda serve --check`: whether a server with these flags would start there, and what it says to that. */
function check(flags: readonly string[], workspace: string): Promise<{ code: number; said: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [process.argv[1] ?? "", "serve", ...flags, "--check"], {
      cwd: workspace,
      stdio: ["ignore", "ignore", "pipe"],
      timeout: START,
    });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (said.length < SAID) said += text;
    });
    child.once("error", (error) => resolve({ code: 1, said: error.message }));
    child.once("close", (code) => resolve({ code: code ?? 1, said: said.trim() }));
  });
}

export async function status(context: CommandContext, options: { json?: boolean }): Promise<number> {
  const { out } = context.streams;
  const { stateDirectory } = await context.setUp();
  const server = readServerFile(stateDirectory);
  if (!server) {
    out(options.json ? `${JSON.stringify({ running: false })}\n` : "No server is running\n");
    return 1;
  }
  const { url, pid, version, startedAt, workspace, flags } = server;
  const state = await readiness(url);
  if (options.json) {
    const known = { running: true, state, url, pid, version, startedAt: new Date(startedAt).toISOString() };
    out(`${JSON.stringify({ ...known, workspace, flags })}\n`);
  } else {
    out(`Rotunda ${version} listening on ${url}: ${state} (pid ${pid}, since ${new Date(startedAt).toISOString()})\n`);
  }
  return 0;
}

/** What the server says of itself: "ok", "shutting_down", …; "silent" where it says nothing. */
function readiness(url: string): Promise<string> {
  return new Promise((resolve) => {
    const request = nodeHttp().get(new URL("/readyz", url), { timeout: 3_000 }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.on("end", () => resolve(/"status":"([a-z_]+)"/.exec(text)?.[1] ?? "silent"));
      response.on("error", () => resolve("silent"));
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve("silent"));
  });
}
