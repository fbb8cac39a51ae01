/**
 * bash: a shell command in the workspace.
 *
 * Invariant: when the call ends, for whatever reason, no process of it is left; it runs within the sandbox that
 * its isolation asks for, with none of our secrets in its environment and nothing on its standard input.
 */
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { Tool, ToolContext, ToolResult } from "../types/tool.ts";
import { type RunOutcome, runProcess } from "../util/process-tree.ts";
import { childEnvironment, type Sandbox, type SandboxedCommand } from "../util/sandbox.ts";
import { shellSubject } from "../util/shell-subject.ts";
import { guardedNote } from "./guarded-note.ts";
import { hiddenFiles } from "./hidden-files.ts";
import { answering, failure, filledText, InputError, optionalInteger } from "./input.ts";

/** Milliseconds. */
const DEFAULT_TIMEOUT = 120_000;
const MAX_TIMEOUT = 600_000;
/** The kernel takes no longer argument. */
const MAX_COMMAND = 120 * 1024;
/** Milliseconds between two reports to whoever watches. */
const PROGRESS_INTERVAL = 200;

export interface BashOptions {
  sandbox: () => Promise<Sandbox>;
  hidden?: readonly string[];
}

export function createBashTool(options: BashOptions): Tool {
  return {
    name: "bash",
    server: "rotunda",
    serverName: "bash",
    description:
      "Runs a command with bash in the workspace and answers its output (standard output and errors together). Nothing that it starts outlives the call, and nothing can be typed into it. As a rule it runs in a sandbox: only the workspace can be written, /tmp is empty and private to the call, there may be no network, and files that steer Rotunda, git or editors cannot be changed (where they do not exist, empty folders of their names hold their place).",
    access: "run",
    repeatable: false,
    parallel: false,
    advice:
      "Use the tools for files (read, edit, write, glob, grep) where they fit, and bash for building, testing and running. Join steps that depend on each other with &&. Quote paths with spaces. Give commands that may take long a timeout, and start no program that waits for input. Look at the exit code and the output before you go on.",
    input: {
      type: "object",
      properties: {
        command: { type: "string", description: "The command line." },
        timeout: {
          type: "integer",
          minimum: 1,
          maximum: MAX_TIMEOUT,
          description: `Milliseconds after which it is ended. Default ${DEFAULT_TIMEOUT}, at most ${MAX_TIMEOUT}.`,
        },
      },
      required: ["command"],
      additionalProperties: false,
    },
    subject: async ({ command }) => shellSubject(command),
    run: answering(async (input, context) => {
      const command = filledText(input, "command");
      const timeout = optionalInteger(input, "timeout", 1) ?? DEFAULT_TIMEOUT;
      if (timeout > MAX_TIMEOUT) throw new InputError(`timeout must be at most ${MAX_TIMEOUT} milliseconds`);
      if (command.includes("\0")) throw new InputError("command contains a NUL character");
      if (Buffer.byteLength(command) > MAX_COMMAND) {
        throw new InputError(`command is longer than ${MAX_COMMAND} bytes; write it to a file and run that`);
      }
      const outcome = await execute(command, timeout, context, options);
      const result = tell(outcome, timeout);
      const note = guardedNote(outcome.output, outcome.guarded, context.workspace);
      return note === undefined ? result : { ...result, text: `${result.text.trimEnd()}\n${note}` };
    }),
  };
}

export async function execute(
  command: string,
  timeout: number,
  context: ToolContext,
  options: BashOptions,
): Promise<RunOutcome & Pick<SandboxedCommand, "guarded">> {
  const sandbox = await options.sandbox();
  const wrapped = sandbox.wrap({
    command: existsSync("/bin/bash") ? "/bin/bash" : "bash",
    args: ["--noprofile", "--norc", "-c", command],
    workspace: context.workspace,
    readOnly: context.isolation.readOnly,
    network: context.isolation.network,
    readable: programFolders(),
    env: childEnvironment(sandbox.level === "none" ? quiet : { ...quiet, ...privateCaches }),
    hidden: [...(options.hidden ?? []), ...(await hiddenFiles(context.workspace, context.hiddenPaths))],
  });
  try {
    const outcome = await runProcess({ ...wrapped, timeout, signal: context.signal, onOutput: reporter(context) });
    return { ...outcome, guarded: wrapped.guarded };
  } finally {
    wrapped.release();
  }
}

/** Folders of programs that lie where the sandbox has a `/tmp` of its own: a checkout there brings its own Node. */
function programFolders(): string[] {
  const folders = [dirname(process.execPath), ...(process.env.PATH ?? "").split(":")];
  return folders.filter((folder) => folder.startsWith("/tmp/"));
}

/** Programs that would ask or page otherwise. */
const quiet = {
  TERM: "dumb",
  PAGER: "cat",
  GIT_PAGER: "cat",
  GIT_TERMINAL_PROMPT: "0",
  DEBIAN_FRONTEND: "noninteractive",
};
/** Tools that fail when they cannot write their cache. */
const privateCaches = {
  npm_config_cache: "/tmp/npm",
  GOCACHE: "/tmp/go-build",
  PIP_CACHE_DIR: "/tmp/pip",
  UV_CACHE_DIR: "/tmp/uv",
};

/** Tells whoever watches the newest output, not more often than the interval. */
function reporter(context: ToolContext): (piece: Buffer) => boolean {
  let last = 0;
  return (piece) => {
    const now = Date.now();
    if (now - last >= PROGRESS_INTERVAL) {
      last = now;
      context.progress(piece.subarray(-2000).toString("utf8"));
    }
    return true;
  };
}

function tell(outcome: RunOutcome, timeout: number): ToolResult {
  const { output, ended, exitCode, signalName, error } = outcome;
  const withOutput = (ending: string) => {
    return failure(output.trim() === "" ? ending : `${output}${output.endsWith("\n") ? "" : "\n"}${ending}`);
  };
  if (ended === "not_started") return failure(`the command could not be started: ${error?.message ?? "unknown"}`);
  if (ended === "timeout")
    return withOutput(`[timed out after ${timeout} ms; the command and all it started were ended]`);
  if (ended === "aborted") return withOutput("[cancelled; the command and all it started were ended]");
  if (ended === "output_limit") {
    return withOutput(`[ended after ${outcome.produced} bytes of output; send long output to a file]`);
  }
  if (exitCode !== 0)
    return withOutput(exitCode === null ? `ended by ${signalName ?? "a signal"}` : `exit code ${exitCode}`);
  return { text: output.trim() === "" ? "(Command executed successfully with no output)" : output };
}
