/**
 * Process trees: a server's process with all that it started, as one group.
 *
 * Invariant: after `kill` has resolved no process of the group lives, and none outlives an exit of ours that
 * Node sees. What leaves the group (`setsid`) or must die with a `kill -9` of ours needs the wrapper that the
 * launch function puts around the command.
 */
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** Milliseconds that a server has after the end of its stdin, and again after SIGTERM. */
const GRACE = 1000;

const live = new Set<number>();

function killAllAtExit(): void {
  for (const group of live) signalGroup(group, "SIGKILL");
}

/** Registers a process that leads its own group (`detached: true`), so that it dies with us. */
export function trackGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  if (live.size === 0) process.once("exit", killAllAtExit);
  live.add(child.pid);
}

/** Kills what is left of the group of a leader that has exited. */
export function reapGroup(child: ChildProcess): void {
  if (child.pid === undefined || !live.delete(child.pid)) return;
  signalGroup(child.pid, "SIGKILL");
  if (live.size === 0) process.removeListener("exit", killAllAtExit);
}

/** Ends a group: stdin closed, then SIGTERM, then SIGKILL. Resolves when the leader is gone. */
export async function endGroup(child: ChildProcess): Promise<void> {
  child.stdin?.end();
  if (!(await exits(child, GRACE))) {
    signalGroup(child.pid, "SIGTERM");
    if (!(await exits(child, GRACE))) {
      signalGroup(child.pid, "SIGKILL");
      await exits(child, GRACE);
    }
  }
  reapGroup(child);
}

/** Kills a group at once. */
export function killGroup(child: ChildProcess): void {
  signalGroup(child.pid, "SIGKILL");
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
}

async function exits(child: ChildProcess, milliseconds: number): Promise<boolean> {
  const gone = () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  if (gone()) return true;
  const timer = new AbortController();
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await Promise.race([exited, sleep(milliseconds, undefined, { signal: timer.signal }).catch(() => undefined)]);
  timer.abort();
  return gone();
}
