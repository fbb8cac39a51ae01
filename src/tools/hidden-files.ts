/**
 * The files that a rule forbids to read, as paths: what a sandbox must hide from a command.
 *
 * Invariant: names are found by a process of its own, bounded in time; where the search fails, the call that
 * asked for it fails too, rather than to run without the wall.
 */
import { isAbsolute, join, relative } from "node:path";
import { matchesPath } from "../util/path-pattern.ts";
import { runProcess } from "../util/process-tree.ts";
import { childEnvironment } from "../util/sandbox.ts";
import { isWithin, resolveInWorkspace } from "../util/workspace-path.ts";
import { InputError } from "./input.ts";
import { findRipgrep } from "./ripgrep.ts";

const TIME = 5_000;
const MAXIMUM = 1_000;

/**
 * Absolute paths of what the patterns name: existing files of the workspace; outside of it, what is named without
 * a wildcard, or as a whole folder (`/srv/keys/**`).
 */
export async function hiddenFiles(workspace: string, patterns: readonly string[] = []): Promise<string[]> {
  if (patterns.length === 0) return [];
  const { real: root } = await resolveInWorkspace(workspace, ".");
  const isOutside = (pattern: string) => isAbsolute(pattern) && !isWithin(root, pattern);
  const outside = patterns.filter(isOutside).map((pattern) => pattern.replace(/\/\*\*$/, ""));
  const fixed = outside.filter((pattern) => !/(?<!\\)[*?]/.test(pattern)).map(unescaped);
  const inside = patterns.filter((pattern) => !isOutside(pattern));
  if (inside.length === 0) return fixed;
  const globs = inside.map((pattern) => globOf(isAbsolute(pattern) ? `./${relative(root, pattern)}` : pattern));
  // `**` within a name means something else to ripgrep: then all names are looked at.
  const wanted = globs.some((glob) => /[^/]\*\*|\*\*[^/]/.test(glob)) ? [] : globs.map((glob) => `--glob=${glob}`);
  const { exitCode, output, ended, clipped } = await runProcess({
    command: await findRipgrep(),
    args: ["--no-config", "--no-messages", "--files", "--hidden", "--no-ignore", "--null", ...wanted],
    cwd: root,
    env: childEnvironment(),
    timeout: TIME,
  });
  const names = output.split("\0").filter((name) => name !== "");
  const paths = names
    .map((name) => join(root, name))
    .filter((path) => inside.some((each) => matchesPath(each, path, root)));
  if (ended !== "exited" || (exitCode !== 0 && exitCode !== 1) || clipped || paths.length > MAXIMUM) {
    throw new InputError("the files that a rule hides could not be listed, so the command was not run");
  }
  return [...fixed, ...paths];
}

/** A permission pattern as a glob of ripgrep: a bare name fits anywhere, a path begins at the workspace. */
function globOf(pattern: string): string {
  const glob = pattern.replace(/\\[*?\\]|[[\]{}!#\\]/g, (part) => (part.length === 2 ? part : `\\${part}`));
  return glob.includes("/") ? `/${glob.replace(/^\.?\//, "")}` : glob;
}

function unescaped(pattern: string): string {
  return pattern.replace(/\\([*?\\])/g, "$1");
}
