/**
 * Process name: which process runs a response, written so that any other process can tell whether it still lives.
 *
 * Form: `host/pid/start/random`. `host` is the machine's boot and pid namespace, so that a pid is only
 * compared where it means something; `start` is the process's start time, so that a pid that was used
 * again is not taken for its predecessor.
 */
import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

let host: string | undefined;

/** This machine, as far as pids are concerned. */
function hostIdentity(): string {
  if (host === undefined) {
    try {
      const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
      host = `${boot}.${readlinkSync("/proc/self/ns/pid").replace(/\D/g, "")}`;
    } catch {
      host = hostname().replaceAll("/", "_");
    }
  }
  return host;
}

/** Start time of a process in clock ticks since boot; "0" where /proc tells nothing; undefined if it is gone. */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command name stands in parentheses and may hold anything, so count from the last one.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    return fields[19] ?? "0";
  } catch {
    if (process.platform === "linux") return undefined;
    try {
      process.kill(pid, 0);
      return "0";
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "EPERM" ? "0" : undefined;
    }
  }
}

/** A new name for this process. */
export function newProcessName(): string {
  return `${hostIdentity()}/${process.pid}/${startTime(process.pid) ?? "0"}/${randomBytes(4).toString("hex")}`;
}

/** Whether a response is somebody's who can be thought to live. */
export function isHeld(lease: { process: string; over?: true } | undefined): boolean {
  return lease !== undefined && lease.over !== true && processState(lease.process) !== "dead";
}

/** "alive" and "dead" are certain; "elsewhere": another host, so that only the lease's time can tell. */
export function processState(name: string): "alive" | "dead" | "elsewhere" {
  const [machine, pid, start] = name.split("/");
  if (machine !== hostIdentity()) return "elsewhere";
  return startTime(Number(pid)) === start ? "alive" : "dead";
}
