/**
 * What a sandboxed process sees of the file system: one plan, which both steps of the sandbox carry out.
 *
 * Invariant: nothing outside the workspace, the named writable folders and private temporary folders can be
 * written; what holds secrets, or leads to a program that would act for the process, is hidden; the files
 * that steer Rotunda, git or the user's shell cannot be written, whether they exist or not.
 */
import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { canonical, guard, UNGUARDED } from "./sandbox-guards.ts";
import { secretPaths } from "./secret-paths.ts";
import { isWithin } from "./workspace-path.ts";

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
  /** What cannot be made or changed although it lies in a writable workspace, relative to it. */
  guarded: string[];
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
    const real = canonical(path);
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
  const { guards, names, release } = request.readOnly ? UNGUARDED : guard(workspace, request.guardAbsent ?? true);
  // What is hidden is guarded as well.
  for (const { path, kind } of guards) if (plan.get(canonical(path) ?? "")?.kind !== "hidden") add(kind, path);
  // A folder mounted onto itself cannot be renamed: else what is hidden or guarded in it could be had elsewhere.
  for (const { path } of [...plan.values()].filter(({ kind }) => kind !== "writable" && kind !== "private")) {
    for (let folder = dirname(path); folder !== workspace && isWithin(workspace, folder); folder = dirname(folder)) {
      if (!plan.has(folder) && nearest(folder, [...plan.values()])?.kind === "writable") add("writable", folder);
    }
  }
  const mounts = [...plan.values()].sort((a, b) => depth(a.path) - depth(b.path));
  return { workspace, mounts: mounts.filter((mount) => isNeeded(mount, mounts)), guarded: names, release };
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

function depth(path: string): number {
  return path === "/" ? 0 : path.split("/").length;
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
