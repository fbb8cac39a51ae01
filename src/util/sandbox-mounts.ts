/**
 * What a sandboxed process sees of the file system: one plan, which both steps of the sandbox carry out.
 *
 * Invariant: nothing outside the workspace, the named writable folders and private temporary folders can be
 * written; what holds secrets, or leads to a program that would act for the process, is hidden; the files
 * that steer Rotunda, git or the user's shell cannot be written, whether they exist or not.
 *
 * A file that does not exist can only be guarded by a stand-in that exists while the process runs, made here
 * and removed here: an empty folder of that name, which git does not see and whose removal can destroy
 * nothing (in a home directory, and for git's own settings, a file that changes nothing). Stand-ins are
 * counted, shared by processes that run at once, and known by their date, so that the next run also removes
 * what a crash left behind.
 */
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { namesIn, secretPaths } from "./secret-paths.ts";
import { CONTROL_FILES, EDITOR_FILES, errorCode, isWithin, START_FILES } from "./workspace-path.ts";

/** What to run and what it may touch. Paths are absolute. */
export interface SandboxRequest {
  command: string;
  args: string[];
  workspace: string;
  /** The workspace cannot be written either. */
  readOnly: boolean;
  network: boolean;
  env: Record<string, string>;
  /** Default: the workspace. */
  cwd?: string;
  /** Further folders that can be written; those that do not exist are left out. */
  writable?: string[];
  /** Files and folders to be seen although they lie in a folder that is emptied (`/tmp`, `/run`). */
  readable?: string[];
  /** Further files and folders that cannot be seen. */
  hidden?: string[];
  /** Guard steering files that do not exist by stand-ins while the process runs. Default true; false suits processes that live long. */
  guardAbsent?: boolean;
}

/** In the order of carrying out: a folder before what lies in it. */
export interface Mount {
  /** `private`: an empty folder of its own. `writable`, `readOnly`: as it is outside. `hidden`: an empty folder, or a file that cannot be read. */
  kind: "private" | "writable" | "readOnly" | "hidden";
  path: string;
  directory: boolean;
}

export interface MountPlan {
  workspace: string;
  mounts: Mount[];
  /** Removes the stand-ins. To be called when the process has ended; further calls do nothing. */
  release(): void;
}

/** Of `/run`, which otherwise holds the sockets of every daemon: what names are resolved by, and NixOS. */
const RUN_KEPT = "systemd/resolve NetworkManager resolvconf current-system booted-system opengl-driver".split(" ");

/** Builds the plan and puts the stand-ins in place. Throws when the workspace does not exist. `allHomes`: the process may read what belongs to other users. */
export function planMounts(request: SandboxRequest, allHomes = false): MountPlan {
  const workspace = realpathSync(request.workspace);
  const plan = new Map<string, Mount>();
  const add = (kind: Mount["kind"], path: string) => {
    const real = existing(path);
    // Hidden by a general rule, but chosen to be worked in.
    if (kind === "hidden" && real === workspace) return;
    if (real) plan.set(real, { kind, path: real, directory: statSync(real).isDirectory() });
  };
  for (const path of ["/run", "/var/run"]) add("hidden", path);
  for (const name of RUN_KEPT) add("readOnly", `/run/${name}`);
  add("private", "/tmp");
  for (const path of request.readable ?? []) add("readOnly", path);
  for (const path of request.writable ?? []) add("writable", path);
  add(request.readOnly ? "readOnly" : "writable", workspace);
  for (const path of secretPaths(allHomes)) add("hidden", path);
  for (const path of listeningSockets()) if (!isWithin(workspace, path) && isSettled(path)) add("hidden", path);
  for (const path of request.hidden ?? []) add("hidden", path);
  const { guards, release } = request.readOnly ? nothing : guard(workspace, request.guardAbsent ?? true);
  // What is hidden is guarded as well.
  for (const { path, kind } of guards) if (plan.get(existing(path) ?? "")?.kind !== "hidden") add(kind, path);
  // A folder mounted onto itself cannot be renamed: else what is hidden or guarded in it could be had elsewhere.
  for (const { path } of [...plan.values()].filter(({ kind }) => kind !== "writable" && kind !== "private")) {
    for (let folder = dirname(path); folder !== workspace && isWithin(workspace, folder); folder = dirname(folder)) {
      if (!plan.has(folder) && nearest(folder, [...plan.values()])?.kind === "writable") add("writable", folder);
    }
  }
  const mounts = [...plan.values()].sort((a, b) => depth(a.path) - depth(b.path));
  return { workspace, mounts: mounts.filter((mount) => isNeeded(mount, mounts)), release };
}

/** What lies in an emptied folder is hidden already. */
function isNeeded(mount: Mount, mounts: readonly Mount[]): boolean {
  if (mount.kind !== "hidden") return true;
  const above = nearest(dirname(mount.path), mounts);
  return above === undefined || above.kind === "writable" || above.kind === "readOnly";
}

/** The mount that decides over a path. */
function nearest(path: string, mounts: readonly Mount[]): Mount | undefined {
  const above = mounts.filter((mount) => isWithin(mount.path, path));
  return above.sort((a, b) => depth(b.path) - depth(a.path))[0];
}

const nothing: { guards: Guard[]; release(): void } = { guards: [], release: () => undefined };

function depth(path: string): number {
  return path === "/" ? 0 : path.split("/").length;
}

/** Canonical, or undefined when we cannot reach it: then neither can the process. */
function existing(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

const LISTENS = 0x10000;
/** Milliseconds. Younger sockets are left out: bwrap fails when one that it is to hide has vanished meanwhile. */
const SETTLED = 2000;

/** Sockets in the file system that somebody listens at (docker, agents, databases): each would act for whoever connects. */
function listeningSockets(): string[] {
  try {
    const rows = readFileSync("/proc/net/unix", "utf8").split("\n").slice(1);
    return rows.flatMap((row) => {
      const [, , , flags = "0", , , , path = ""] =
        /^(\S+) (\S+) (\S+) (\S+) (\S+) (\S+) +(\S+)(?: (.*))?$/.exec(row)?.slice(1) ?? [];
      return path.startsWith("/") && Number.parseInt(flags, 16) & LISTENS ? [path] : [];
    });
  } catch {
    return [];
  }
}

function isSettled(path: string): boolean {
  try {
    return Date.now() - lstatSync(path).ctimeMs > SETTLED;
  } catch {
    return false;
  }
}

interface Guard {
  path: string;
  kind: "readOnly" | "writable" | "hidden";
}

/** The steering files of a workspace, and stand-ins for those that do not exist. */
function guard(workspace: string, absentToo: boolean): { guards: Guard[]; release(): void } {
  const guards: Guard[] = [];
  const placed: Placeholder[] = [];
  const protect = (path: string, content: string | null, evenIfAbsent = absentToo): void => {
    if (!present(path)) {
      if (!evenIfAbsent) return;
      const folder = dirname(path);
      if (!present(folder) || isPlaceholder(folder)) {
        protect(folder, null);
        return;
      }
      const placeholder = { path, content };
      if (!place(placeholder)) return;
      placed.push(placeholder);
    } else if (isPlaceholder(path)) {
      const placeholder = { path, content };
      hold(path);
      placed.push(placeholder);
    }
    // An empty folder that cannot be written is shown the cheapest way.
    guards.push({ path, kind: isPlaceholder(path) && isDirectory(path) ? "hidden" : "readOnly" });
  };
  // Programs read `.env` wherever it stands and stumble over a folder of that name; what we take from it needs trust.
  for (const path of CONTROL_FILES) protect(join(workspace, path), null, absentToo && path !== ".env");
  for (const path of EDITOR_FILES) if (present(join(workspace, path))) protect(join(workspace, path), "");
  const git = join(workspace, ".git");
  const repository = isDirectory(git) && !isPlaceholder(git);
  const redirect = join(git, "commondir");
  const redirected = present(redirect);
  if (repository) {
    // Mounted onto itself, or it could be renamed and made anew.
    guards.push({ path: git, kind: "writable" });
    protect(join(git, "hooks"), null);
    protect(join(git, "config"), "");
    if (redirected) protect(redirect, "");
    for (const name of namesIn(join(git, "modules"))) {
      for (const part of ["hooks", "config"]) {
        if (present(join(git, "modules", name, part))) protect(join(git, "modules", name, part), "");
      }
    }
  } else protect(git, null);
  const home = existing(homedir());
  if (home && isWithin(workspace, home)) {
    for (const path of START_FILES) protect(join(home, path), startContent(path));
    for (const path of [".ssh", ".config/rotunda"]) protect(join(home, path), null);
  }
  let released = false;
  const release = () => {
    if (released) return;
    released = true;
    withdraw(placed.reverse());
    // A stand-in for this file would break git, so one that appeared is taken away instead.
    if (repository && !redirected) removeFile(redirect);
  };
  return { guards, release };
}

/** A shell that finds the stand-in must behave as if it were not there: it would otherwise not read `.profile`. */
function startContent(path: string): string | null {
  if (path.startsWith(".config/")) return null;
  return path === ".bash_profile" || path === ".bash_login" ? '[ -r "$HOME/.profile" ] && . "$HOME/.profile"\n' : "";
}

interface Placeholder {
  path: string;
  /** null: a folder. */
  content: string | null;
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
  if (unused.length === 0) return;
  const elsewhere = mountedElsewhere();
  for (const { path, content } of unused) {
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

/** The mount points of every other namespace that we may look into. */
function mountedElsewhere(): Set<string> {
  const seen = new Set([namespaceOf("self")]);
  const paths = new Set<string>();
  for (const pid of namesIn("/proc")) {
    if (!/^\d/.test(pid)) continue;
    const namespace = namespaceOf(pid);
    if (namespace === undefined || seen.has(namespace)) continue;
    seen.add(namespace);
    for (const { path } of readMounts(pid)) paths.add(path);
  }
  return paths;
}

function namespaceOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

export interface MountEntry {
  path: string;
  /** As `mount -o` takes them: `rw`, `nosuid` … */
  options: string[];
}

/** The mount table of a process. */
export function readMounts(pid = "self"): MountEntry[] {
  try {
    const rows = readFileSync(`/proc/${pid}/mountinfo`, "utf8").trimEnd().split("\n");
    return rows.map((row) => {
      const fields = row.split(" ");
      const path = (fields[4] ?? "").replace(/\\([0-7]{3})/g, (_, octal: string) =>
        String.fromCharCode(Number.parseInt(octal, 8)),
      );
      return { path, options: (fields[5] ?? "").split(",") };
    });
  } catch {
    return [];
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
