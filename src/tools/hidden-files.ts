/**
 * The files that a rule forbids to read, as paths: what a sandbox must hide from a command.
 *
 * Invariant: names are found by a process of its own, bounded in time; where the search fails, the call that
 * asked for it fails too, rather than to run without the wall.
 */
import { isAbsolute, join } from "node:path";
import { runProcess } from "../util/process-tree.ts";
import { childEnvironment } from "../util/sandbox.ts";
import { InputError } from "./input.ts";
import { findRipgrep } from "./ripgrep.ts";

const TIME = 5_000;
const MAXIMUM = 1_000;

/** Absolute paths of existing files of the workspace that the patterns name. */
export async function hiddenFiles(workspace: string, patterns: readonly string[] = []): Promise<string[]> {
  if (patterns.length === 0) return [];
  const absolute = patterns.filter((pattern) => isAbsolute(pattern) && !/[*?[]/.test(pattern));
  const relative = patterns.filter((pattern) => !isAbsolute(pattern));
  if (relative.length === 0) return absolute;
  const globs = relative.map((pattern) => `--glob=${globOf(pattern)}`);
  const { exitCode, output, ended, clipped } = await runProcess({
    command: await findRipgrep(),
    args: ["--no-config", "--no-messages", "--files", "--hidden", "--no-ignore", "--null", ...globs],
    cwd: workspace,
    env: childEnvironment(),
    timeout: TIME,
  });
  const names = output.split("\0").filter((name) => name !== "");
  if (ended !== "exited" || (exitCode !== 0 && exitCode !== 1) || clipped || names.length > MAXIMUM) {
    throw new InputError("the files that a rule hides could not be listed, so the command was not run");
  }
  return [...absolute, ...names.map((name) => join(workspace, name))];
}

/** A permission pattern as a glob of ripgrep: a bare name fits anywhere, a path begins at the workspace. */
function globOf(pattern: string): string {
  return pattern.includes("/") ? `/${pattern.replace(/^\.?\//, "")}` : pattern;
}
