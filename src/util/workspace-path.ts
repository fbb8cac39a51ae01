/**
 * Paths of a workspace: canonical names, and opens that cannot be led out of it.
 *
 * Invariant: whatever a model names, and whoever swaps a folder for a symbolic link at the same moment, no
 * file outside the workspace is read, created, cut or replaced through this module. Names are never trusted
 * after they were checked: on Linux each step goes through a handle of the folder that was verified.
 *
 * Hard links carry no trace of where else they lie, so a file with several names is not read, except in
 * folders that package managers fill with hard links. Writing replaces the name, never the shared content.
 */
import type { Stats } from "node:fs";
import { constants } from "node:fs";
import { access, type FileHandle, lstat, mkdir, open, readlink, realpath, rename, unlink } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";

/** A path that may not be used; its message is meant for the model. */
export class PathError extends Error {
  override readonly name = "PathError";
}

export interface ResolvedPath {
  /** Absolute, without symbolic links as far as the path exists. */
  real: string;
  /** It is the workspace or lies in it. */
  inside: boolean;
}

const linux = process.platform === "linux";
const MAX_LINKS = 40;

/** Whether `path` is `folder` or lies below it. Both canonical. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** The canonical form of a path, relative ones taken from the workspace. The path need not exist. Throws `PathError` on a NUL or a loop of links. */
export async function resolveInWorkspace(workspace: string, path: string): Promise<ResolvedPath> {
  if (path === "") throw new PathError("the path is empty");
  if (path.includes("\0")) throw new PathError("the path contains a NUL character");
  const root = await realpath(workspace);
  const real = await canonical(isAbsolute(path) ? path : `${root}/${path}`);
  return { real, inside: isWithin(root, real) };
}

/** As the kernel would walk it, with `..` taken after links; components that do not exist stay as they are. */
async function canonical(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (errorCode(error) === "ELOOP") throw new PathError("too many symbolic links");
  }
  const pending = path.split("/").reverse();
  let current = "/";
  let links = 0;
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    if (name === "" || name === ".") continue;
    if (name === "..") {
      current = dirname(current);
      continue;
    }
    const candidate = join(current, name);
    const target = await readlink(candidate).catch(() => undefined);
    if (target === undefined) {
      current = candidate;
      continue;
    }
    if (++links > MAX_LINKS) throw new PathError("too many symbolic links");
    if (target.startsWith("/")) current = "/";
    pending.push(...target.split("/").reverse());
  }
  return current;
}

export interface OpenedFile {
  handle: FileHandle;
  real: string;
  stats: Stats;
}

/**
 * Opens an existing regular file of the workspace; never waits for a FIFO and never creates or cuts anything.
 * `flags` are those of open(2), `O_RDONLY` by default. The caller closes the handle. Throws `PathError`, or the
 * system's error when the file cannot be opened.
 */
export async function openInside(workspace: string, path: string, flags = constants.O_RDONLY): Promise<OpenedFile> {
  if (flags & (constants.O_CREAT | constants.O_TRUNC)) throw new PathError("opening must not create or cut a file");
  const root = await realpath(workspace);
  const { real, inside } = await resolveInWorkspace(root, path);
  if (!inside) throw outside(path, root);
  const handle = await open(real, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY).catch(
    (error: unknown) => {
      throw errorCode(error) === "ELOOP" ? changed(path) : error;
    },
  );
  try {
    const stats = await handle.stat();
    if (!isWithin(root, await placeOf(handle, real, stats))) throw outside(path, root);
    if (stats.isDirectory()) throw new PathError(`"${path}" is a directory`);
    if (!stats.isFile()) throw new PathError(`"${path}" is not a regular file`);
    if (stats.nlink > 1 && !sharesContent(root, real)) {
      throw new PathError(`"${path}" has other names (hard links) that may lie outside the workspace`);
    }
    return { handle, real, stats };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Where an open file lies now, by the kernel's word. */
async function placeOf(handle: FileHandle, real: string, stats: Stats): Promise<string> {
  if (linux) return readlink(`/proc/self/fd/${handle.fd}`);
  const again = await lstat(real);
  if (again.ino !== stats.ino || again.dev !== stats.dev) throw changed(real);
  return realpath(real);
}

const LINKED_FOLDERS = /(^|\/)(node_modules|\.pnpm-store|\.yarn|\.venv|venv|site-packages|\.git)\//;

/** Package managers and git link the same file into many places. */
export function sharesContent(root: string, real: string): boolean {
  return LINKED_FOLDERS.test(relative(root, real));
}

export interface WriteOptions {
  /** What the file was when it was read: the write is refused when it is no longer that. */
  expected?: Stats;
  /** Absolute and canonical: what lies at or below one of them is not written. */
  untouchable?: readonly string[] | undefined;
}

/**
 * Replaces or creates a file of the workspace in one step (a new file, renamed over the old one), with the
 * folders above it. Steering files are refused. The mode of an existing file stays. Throws `PathError` or the system's error.
 */
export async function writeInside(
  workspace: string,
  path: string,
  content: string | Uint8Array,
  options: WriteOptions = {},
): Promise<{ real: string; created: boolean }> {
  const root = await realpath(workspace);
  const { real, inside } = await resolveInWorkspace(root, path);
  if (!inside) throw outside(path, root);
  if (real === root) throw new PathError(`"${path}" is a directory`);
  // Looked at here, where it is resolved for the last time: links may have led elsewhere before.
  if (options.untouchable?.some((one) => isWithin(one, real))) throw changed(path);
  const reason = protectedReason(root, real);
  const refusal = reason === undefined ? undefined : new PathError(`"${path}" is protected: ${reason}`);
  if (refusal && relative(root, real) !== MADE_BY_ANYBODY) throw refusal;
  const folder = await openFolder(root, dirname(real), path);
  try {
    const at = (name: string) => (linux ? `/proc/self/fd/${folder.fd}/${name}` : join(dirname(real), name));
    const target = at(basename(real));
    const before = await lstat(target).catch(ignoreMissing);
    if (before && refusal) throw refusal;
    await checkTarget(before, target, path, options);
    const temporary = at(`.rotunda-${process.pid}-${Math.random().toString(36).slice(2)}.tmp`);
    try {
      await writeNew(temporary, content, before);
      await rename(temporary, target);
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
    return { real, created: before === undefined };
  } finally {
    await folder.close();
  }
}

async function checkTarget(before: Stats | undefined, target: string, path: string, options: WriteOptions) {
  const { expected } = options;
  if (expected) {
    const same = before && before.ino === expected.ino && before.size === expected.size;
    if (!same || before.mtimeMs !== expected.mtimeMs) throw changed(path);
  }
  if (!before) return;
  if (before.isSymbolicLink()) throw changed(path);
  if (before.isDirectory()) throw new PathError(`"${path}" is a directory`);
  if (!before.isFile()) throw new PathError(`"${path}" is not a regular file`);
  await access(target, constants.W_OK);
}

async function writeNew(temporary: string, content: string | Uint8Array, before: Stats | undefined): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const handle = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
  try {
    await handle.writeFile(content);
    if (before) {
      const self = await handle.stat();
      if (self.uid !== before.uid || self.gid !== before.gid) {
        await handle.chown(before.uid, before.gid).catch(() => undefined);
      }
      await handle.chmod(before.mode & 0o777);
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A handle of a folder below `root`, made where it is missing: each step from the handle of the one above, following no link. */
async function openFolder(root: string, folder: string, path: string): Promise<FileHandle> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  let handle = await open(root, flags);
  let place = root;
  try {
    for (const name of relative(root, folder).split(sep).filter(Boolean)) {
      place = join(place, name);
      const step = linux ? `/proc/self/fd/${handle.fd}/${name}` : place;
      const next = await open(step, flags).catch(async (error: unknown) => {
        if (errorCode(error) !== "ENOENT") throw error;
        await mkdir(step).catch((failure: unknown) => {
          if (errorCode(failure) !== "EEXIST") throw failure;
        });
        return open(step, flags);
      });
      await handle.close();
      handle = next;
    }
    if (linux && !isWithin(root, await readlink(`/proc/self/fd/${handle.fd}`))) throw outside(path, root);
    return handle;
  } catch (error) {
    await handle.close();
    if (errorCode(error) === "ELOOP") throw changed(path);
    if (errorCode(error) === "ENOTDIR") throw new PathError(`a folder of "${path}" is not a directory`);
    throw error;
  }
}

/** Files and folders of a workspace that steer Rotunda or its siblings, relative to it. */
export const CONTROL_FILES: readonly string[] = [
  "rotunda.yaml",
  "rotunda.yml",
  "rotunda.json",
  "rotunda.jsonc",
  ".rotunda",
  ".mcp.json",
  "mcp-servers.json",
  "finta.yaml",
  "system-prompt.txt",
  ".env",
];

/**
 * Guarded where it stands; where it does not, a tool or a command may make it, as builds do. What it gives Rotunda before a
 * person trusts it decides neither what is started nor where anything is sent.
 */
export const MADE_BY_ANYBODY = ".env";

/** Of them, those that are read at the top of the workspace alone and whose names mean nothing elsewhere. */
const ONLY_AT_THE_TOP: readonly string[] = [MADE_BY_ANYBODY, "system-prompt.txt"];

/** Further ones, of siblings and of editors. */
export const EDITOR_FILES: readonly string[] = [
  "configs/finta.yaml",
  ".polybrain.yaml",
  ".vscode/mcp.json",
  ".vscode/tasks.json",
  ".vscode/settings.json",
  ".vscode/launch.json",
  ".cursor/mcp.json",
  ".claude/settings.json",
  ".claude/settings.local.json",
];

/** Files and folders of a home directory that a shell, git or the session runs by itself. */
export const START_FILES: readonly string[] = [
  ".bashrc",
  ".bash_profile",
  ".bash_login",
  ".bash_logout",
  ".profile",
  ".zshrc",
  ".zshenv",
  ".zprofile",
  ".zlogin",
  ".gitconfig",
  ".config/git",
  ".config/fish",
  ".config/autostart",
  ".config/systemd",
  ".config/environment.d",
];

const FORMAT_CHARACTERS = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** Names that a file system may take for the same. */
function folded(path: string): string {
  return path.normalize("NFKC").replace(FORMAT_CHARACTERS, "").toLowerCase();
}

/** Why the file tools may not write this canonical path, though it lies in the workspace; undefined when they may. */
export function protectedReason(root: string, real: string): string | undefined {
  const segments = folded(relative(root, real)).split(sep);
  const name = segments.at(-1) ?? "";
  const own = "it steers Rotunda or its tools, so only a person may change it";
  if (segments.includes(".git")) return "git runs commands from its own files";
  if (segments.includes(".rotunda")) return own;
  const inner = segments.join("/");
  for (const path of CONTROL_FILES) {
    if (ONLY_AT_THE_TOP.includes(path) ? inner === path : name === path) return own;
  }
  if (EDITOR_FILES.some((path) => inner === path || inner.endsWith(`/${path}`))) return own;
  const fromHome = folded(relative(homedir(), real));
  const secrets = [".ssh", ".gnupg", ".aws", ".npmrc", ".netrc", ".config/rotunda", ".config/finta"];
  for (const path of [...START_FILES, ...secrets]) {
    if (fromHome === path || fromHome.startsWith(`${path}/`)) return "it is run or trusted by programs of the user";
  }
  return undefined;
}

function outside(path: string, root: string): PathError {
  return new PathError(`"${path}" is outside the workspace ${root}`);
}

function changed(path: string): PathError {
  return new PathError(`"${path}" was changed by somebody else at the same moment; look at it again`);
}

function ignoreMissing(error: unknown): undefined {
  if (errorCode(error) !== "ENOENT") throw error;
}

/** The system's code of an error (`ENOENT`), where it has one. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
