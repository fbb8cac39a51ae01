/**
 * What a sandboxed command must not change in its workspace: the files that steer Rotunda, git, editors and shells.
 *
 * Invariant: such a file cannot be written, whether it exists or not.
 *
 * A file that does not exist can only be guarded by a stand-in that exists while the process runs, made here
 * and removed here: an empty folder of that name, which git does not see and whose removal can destroy
 * nothing (in a home directory, and for git's own settings, a file that changes nothing). Stand-ins are
 * counted, shared by processes that run at once, and known by their date, so that what a crash left behind is
 * found and removed: by the next command, and by whoever calls `clearStandIns`.
 */
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { mountedElsewhere } from "./mount-table.ts";
import { namesIn } from "./secret-paths.ts";
import { CONTROL_FILES, EDITOR_FILES, errorCode, isWithin, MADE_BY_ANYBODY, START_FILES } from "./workspace-path.ts";

interface Guard {
  path: string;
  kind: "readOnly" | "writable" | "hidden";
}

interface Guarded {
  guards: Guard[];
  /** What cannot be made or changed, relative to the workspace. */
  names: string[];
  /** Removes the stand-ins. Further calls do nothing. */
  release(): void;
}

export const UNGUARDED: Guarded = { guards: [], names: [], release: () => undefined };

interface Placeholder {
  path: string;
  /** null: a folder. */
  content: string | null;
}

interface Steering extends Placeholder {
  /** Guarded only where it exists. */
  onlyPresent?: boolean;
}

/** Guards the steering files of a workspace (canonical), with stand-ins for those that do not exist if `absentToo`. */
export function guard(workspace: string, absentToo: boolean): Guarded {
  const guards: Guard[] = [];
  const placed: Placeholder[] = [];
  const protect = (path: string, content: string | null, evenIfAbsent: boolean): void => {
    if (!present(path)) {
      if (!evenIfAbsent) return;
      const folder = dirname(path);
      if (!present(folder) || isPlaceholder(folder)) {
        protect(folder, null, evenIfAbsent);
        return;
      }
      const placeholder = { path, content };
      // Through a link it would stand elsewhere, where the process cannot write.
      if (!isWithin(workspace, canonical(folder) ?? "") || !place(placeholder)) return;
      placed.push(placeholder);
    } else if (isPlaceholder(path)) {
      const placeholder = { path, content };
      hold(path);
      placed.push(placeholder);
    }
    // An empty folder that cannot be written is shown the cheapest way.
    guards.push({ path, kind: isPlaceholder(path) && isDirectory(path) ? "hidden" : "readOnly" });
  };
  for (const { path, content, onlyPresent } of steeringFiles(workspace)) {
    protect(path, content, absentToo && !onlyPresent);
  }
  const names = guards.map(({ path }) => relative(workspace, path));
  const git = join(workspace, ".git");
  const redirects = steeringFiles(workspace).flatMap(({ path }) => (basename(path) === "commondir" ? [path] : []));
  const watched = redirects.filter((path) => !present(path));
  // Mounted onto itself, or it could be renamed and made anew.
  if (isRepository(git)) guards.push({ path: git, kind: "writable" });
  let released = false;
  const release = () => {
    if (released) return;
    released = true;
    withdraw(placed.reverse());
    // A stand-in for this file would break git, so one that appeared is taken away instead.
    for (const path of watched) removeFile(path);
  };
  return { guards, names: [...new Set(names)], release };
}

/**
 * Removes the stand-ins that a crash has left in a workspace. Those that a running command relies on stay. Without any
 * it costs some forty looks at names. A workspace that does not exist has none.
 */
export function clearStandIns(workspace: string): void {
  const root = canonical(workspace);
  if (root === undefined) return;
  const left = new Map<string, Placeholder>();
  for (const { path, content } of steeringFiles(root)) {
    if (isPlaceholder(path)) left.set(path, { path, content });
    for (let folder = dirname(path); folder !== root && isWithin(root, folder); folder = dirname(folder)) {
      if (isPlaceholder(folder)) left.set(folder, { path: folder, content: null });
    }
  }
  const unused = [...left.values()].filter(({ path }) => !held.has(path));
  remove(unused.sort((a, b) => b.path.length - a.path.length));
}

function steeringFiles(workspace: string): Steering[] {
  const files: Steering[] = CONTROL_FILES.map((name) => {
    return { path: join(workspace, name), content: null, onlyPresent: name === MADE_BY_ANYBODY };
  });
  for (const name of EDITOR_FILES) {
    // A folder of any program, where a stand-in would be in the way of files that steer nothing.
    const shared = dirname(name) !== "." && !name.startsWith(".");
    files.push({ path: join(workspace, name), content: null, onlyPresent: shared });
  }
  files.push(...gitFiles(join(workspace, ".git")));
  const home = canonical(homedir());
  if (home && isWithin(workspace, home)) {
    for (const path of START_FILES) files.push({ path: join(home, path), content: startContent(path) });
    for (const path of [".ssh", ".config/rotunda"]) files.push({ path: join(home, path), content: null });
  }
  return files;
}

/** A repository that is made while editors and prompts look on would be asked for its state at once, and run what stands in it: so none is made. */
function gitFiles(git: string): Steering[] {
  if (!isRepository(git)) return [{ path: git, content: null }];
  return [git, ...moduleFolders(join(git, "modules")), ...worktreeFolders(git)].flatMap((folder): Steering[] => {
    // Git reads it beside `config` where that says so, as `git sparse-checkout` makes it say.
    const own = [{ path: join(folder, "config.worktree"), content: "" }, commonOf(folder)];
    if (dirname(folder) === join(git, "worktrees")) return own;
    return [{ path: join(folder, "hooks"), content: null }, { path: join(folder, "config"), content: "" }, ...own];
  });
}

/** It leads git to settings elsewhere. A stand-in for it would break git. */
function commonOf(folder: string): Steering {
  return { path: join(folder, "commondir"), content: "", onlyPresent: true };
}

/** Levels of folders in the name of a submodule, which is its path as a rule. */
const DEEPEST_MODULE = 8;

/** The repositories of submodules, and of theirs. */
function moduleFolders(folder: string, depth = 0): string[] {
  if (depth > DEEPEST_MODULE || !isDirectory(folder)) return [];
  return namesIn(folder).flatMap((name) => {
    const path = join(folder, name);
    if (!isDirectory(path)) return [];
    return present(join(path, "HEAD"))
      ? [path, ...moduleFolders(join(path, "modules"), depth + 1)]
      : moduleFolders(path, depth + 1);
  });
}

/** What git keeps for each further working tree. */
function worktreeFolders(git: string): string[] {
  const folder = join(git, "worktrees");
  return namesIn(folder)
    .map((name) => join(folder, name))
    .filter(isDirectory);
}

function isRepository(git: string): boolean {
  return isDirectory(git) && !isPlaceholder(git);
}

/** A shell that finds the stand-in must behave as if it were not there: it would otherwise not read `.profile`. */
function startContent(path: string): string | null {
  if (path.startsWith(".config/")) return null;
  return path === ".bash_profile" || path === ".bash_login" ? '[ -r "$HOME/.profile" ] && . "$HOME/.profile"\n' : "";
}

/** The date that marks a stand-in: one second after the epoch. */
const MARK = 1;
const held = new Map<string, number>();

function hold(path: string): void {
  held.set(path, (held.get(path) ?? 0) + 1);
}

/** False when it cannot be made here: then the process cannot make it either. */
function place({ path, content }: Placeholder): boolean {
  try {
    if (content === null) mkdirSync(path, { mode: 0o755 });
    else writeFileSync(path, content, { flag: "wx", mode: 0o644 });
    utimesSync(path, MARK, MARK);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") return false;
  }
  hold(path);
  return true;
}

function withdraw(placeholders: readonly Placeholder[]): void {
  const unused = placeholders.filter(({ path }) => {
    const count = (held.get(path) ?? 1) - 1;
    if (count > 0) held.set(path, count);
    else held.delete(path);
    return count <= 0;
  });
  remove(unused);
}

function remove(placeholders: readonly Placeholder[]): void {
  if (placeholders.length === 0) return;
  const elsewhere = mountedElsewhere();
  for (const { path, content } of placeholders) {
    try {
      // Another process's sandbox relies on it: removing it here would open it there. That process removes it.
      if (!isPlaceholder(path) || elsewhere.has(path)) continue;
      if (content === null) rmdirSync(path);
      else if (readFileSync(path, "utf8") === content) unlinkSync(path);
    } catch {
      // Somebody else removed it, or made it his own.
    }
  }
}

/** Whether a file or folder is a stand-in that guards a file that does not exist. Whoever reads settings treats it as absent. */
export function isPlaceholder(path: string): boolean {
  try {
    const stats = lstatSync(path);
    return stats.mtimeMs === MARK * 1000 && stats.size < 8192 && (stats.isFile() || stats.isDirectory());
  } catch {
    return false;
  }
}

/** Canonical, or undefined when we cannot reach it: then neither can the process. */
export function canonical(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function present(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

function isDirectory(path: string): boolean {
  try {
    return lstatSync(path).isDirectory();
  } catch {
    return false;
  }
}

function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // It never appeared.
  }
}
