/**
 * Server processes: started, ended gently, and never left behind.
 *
 * Invariant: a server that was asked to end has three times `GRACE` and is then dead with all that it started;
 * none outlives an exit of ours that Node sees. What must die with a `kill -9` of ours needs the pid namespace
 * that the launch function puts around the command.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type RunningProcess, startProcess } from "../util/process-tree.ts";
import type { LaunchCommand } from "./hub-types.ts";

/** Milliseconds that a server has after the end of its stdin, and again after SIGTERM. */
const GRACE = 1000;

const live = new Set<RunningProcess>();

function killAllAtExit(): void {
  // The signals are sent before `kill` returns; there is no time to wait for more.
  for (const running of live) void running.kill();
}

/** Starts a server with pipes for its three streams. Throws what `spawn` throws. */
export function startServer(command: LaunchCommand): RunningProcess {
  const running = startProcess({
    command: command.command,
    args: command.args,
    cwd: command.cwd,
    env: command.env,
    stdio: ["pipe", "pipe", "pipe"],
    namespaced: command.namespaced ?? false,
  });
  if (live.size === 0) process.once("exit", killAllAtExit);
  live.add(running);
  void running.ended.then(() => {
    live.delete(running);
    if (live.size === 0) process.removeListener("exit", killAllAtExit);
    command.release?.();
  });
  return running;
}

/** Ends a server as the protocol asks for: stdin closed, then SIGTERM ("at once": beside it), then SIGKILL for everything. */
export async function endServer(
  { child, ended, kill }: RunningProcess,
  how: "polite" | "at once" = "polite",
): Promise<void> {
  child.stdin?.end();
  if (how === "polite" && (await within(ended, GRACE))) return;
  if (child.pid !== undefined) signalGroup(child.pid, "SIGTERM");
  if (await within(ended, GRACE)) return;
  await within(kill(), GRACE);
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
}

/** Whether it ended in so many milliseconds. */
export async function within(ended: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const timer = new AbortController();
  const waited = sleep(milliseconds, false, { signal: timer.signal }).catch(() => false);
  const inTime = await Promise.race([ended.then(() => true), waited]);
  timer.abort();
  return inTime;
}
