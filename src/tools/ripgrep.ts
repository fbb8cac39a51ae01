/**
 * ripgrep: walks and searches the workspace in a process of its own.
 *
 * Invariant: a pattern of the model or an ignore file of the project never runs on our event loop, links are
 * not followed, and the search ends by itself: by its result, by time, or with the caller. Where there is a
 * sandbox, it runs in it, so that a folder swapped for a link at the wrong moment leads to no secret.
 */
import { accessSync, constants } from "node:fs";
import { dirname } from "node:path";
import { runProcess } from "../util/process-tree.ts";
import { childEnvironment, detectSandbox, type Sandbox } from "../util/sandbox.ts";
import { InputError } from "./input.ts";

export interface SearchOptions {
  sandbox: () => Promise<Sandbox>;
  /** Files and folders that the search must not see. */
  hidden?: readonly string[];
}

interface Search {
  args: string[];
  /** A folder of the workspace; what is found is relative to it. */
  folder: string;
  workspace: string;
  signal: AbortSignal;
  /** Sees each line (or, with `separator`, each piece); false ends the search. */
  onLine(line: string): boolean;
  separator?: "\n" | "\0";
}

export interface SearchEnd {
  /** "time": it took longer than allowed; what was found until then was told. */
  ended: "complete" | "enough" | "time";
}

/** Milliseconds. */
const TIME = 20_000;
const MAX_PIECE = 64 * 1024;

/** Runs one search. Throws `InputError` with ripgrep's own words on a bad pattern, and when it is missing. */
export async function search(request: Search, options: SearchOptions): Promise<SearchEnd> {
  const command = await findRipgrep();
  const sandbox = await options.sandbox().catch(() => detectSandbox("none"));
  const wrapped = sandbox.wrap({
    command,
    args: [
      "--no-config",
      "--no-messages",
      "--color=never",
      "--hidden",
      "--no-require-git",
      "--sort=path",
      ...request.args,
    ],
    workspace: request.workspace,
    cwd: request.folder,
    readOnly: true,
    network: false,
    env: childEnvironment(),
    readable: [dirname(command)],
    hidden: [...(options.hidden ?? [])],
  });
  const separator = (request.separator ?? "\n").charCodeAt(0);
  let rest = Buffer.alloc(0);
  const onOutput = (piece: Buffer): boolean => {
    let bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    for (let end = bytes.indexOf(separator); end >= 0; end = bytes.indexOf(separator)) {
      if (!request.onLine(bytes.toString("utf8", 0, end))) return false;
      bytes = bytes.subarray(end + 1);
    }
    rest = Buffer.from(bytes.subarray(0, MAX_PIECE));
    return true;
  };
  try {
    const { exitCode, ended, output, error } = await runProcess({
      ...wrapped,
      timeout: TIME,
      signal: request.signal,
      keep: 8192,
      limit: Number.POSITIVE_INFINITY,
      onOutput,
    });
    if (ended === "aborted") throw new InputError("the search was cancelled");
    if (ended === "not_started")
      throw new InputError(`the search could not be started: ${error?.message ?? "unknown"}`);
    if (ended === "timeout") return { ended: "time" };
    if (ended === "stopped") return { ended: "enough" };
    if (exitCode !== 0 && exitCode !== 1)
      throw new InputError(output.replace(/^rg: /, "").trim() || "the search failed");
    return { ended: "complete" };
  } finally {
    wrapped.release();
  }
}

/** The program in our package, else the system's. */
export async function findRipgrep(): Promise<string> {
  const places = ["/usr/bin/rg", "/usr/local/bin/rg", "/opt/homebrew/bin/rg"];
  try {
    const { rgPath } = await import("@vscode/ripgrep");
    places.unshift(rgPath);
  } catch {
    // The package has no program for this platform.
  }
  for (const place of places) {
    try {
      accessSync(place, constants.X_OK);
      return place;
    } catch {
      // Not here.
    }
  }
  throw new InputError(
    "ripgrep (rg) is missing: reinstall with optional packages, or install ripgrep; until then, search with bash",
  );
}
