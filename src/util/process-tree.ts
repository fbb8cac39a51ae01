/**
 * Processes with everything that they start.
 *
 * Invariant: when `runProcess` resolves, or `RunningProcess.ended` does, nothing that descended from the process
 * runs any more, and no handle, timer or listener of it is left. In a pid namespace (sandbox steps 1 and 2)
 * the kernel sees to it, also when we are killed ourselves. Without one, the process group is killed, then
 * everything that still carries the mark that its environment was given; only a process that threw its
 * environment away as well can escape.
 */
import { type ChildProcess, execFile, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { closeSync, constants, openSync, readFileSync, unlinkSync } from "node:fs";
import { lstat, readdir, readFile, unlink } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { withoutInherited } from "./inherited-descriptors.ts";

const linux = process.platform === "linux";
const MARK = "ROTUNDA_PROCESS";

export interface StartRequest {
  command: string;
  args: readonly string[];
  cwd: string;
  env: Record<string, string>;
  /** As of `spawn`; default: nothing in, pipes out. */
  stdio?: SpawnOptions["stdio"];
  /** The process is the outer end of a pid namespace: what `Sandbox.wrap` answers. */
  namespaced?: boolean;
}

export interface ProcessExit {
  exitCode: number | null;
  signalName: NodeJS.Signals | null;
  /** It could not be started. */
  error?: Error;
}

export interface RunningProcess {
  child: ChildProcess;
  /** Resolves when the process and all its descendants are dead. Never rejects. */
  ended: Promise<ProcessExit>;
  /** Kills all of them at once; resolves like `ended`. May be called more than once. */
  kill(): Promise<ProcessExit>;
}

let names = 0;

/** Different from every other of this machine; need not be hard to guess. */
function uniqueName(): string {
  return [process.pid, ++names, Date.now(), Math.random().toString(36).slice(2)].join("-");
}

/** Starts a process as the leader of its own group and session. */
export function startProcess(request: StartRequest): RunningProcess {
  const mark = uniqueName();
  const { stdio, close } = withoutInherited(request.stdio ?? ["ignore", "pipe", "pipe"]);
  const child = spawn(request.command, [...request.args], {
    cwd: request.cwd,
    env: { ...request.env, [MARK]: mark },
    stdio,
    detached: true,
  });
  close();
  const namespaced = request.namespaced ?? false;
  const ended = new Promise<ProcessExit>((resolve) => {
    child.once("error", (error) => {
      if (child.pid === undefined) resolve({ exitCode: null, signalName: null, error });
    });
    child.once("exit", (exitCode, signalName) => {
      // A namespace that ended by itself left nothing; one whose outer end was shot may still be dying.
      const swept = namespaced && signalName === null ? Promise.resolve() : sweep(child.pid, mark);
      swept.then(() => resolve({ exitCode, signalName })).catch(() => resolve({ exitCode, signalName }));
    });
  });
  const kill = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      if (namespaced) killNamespace(child, child.pid);
      else signalGroup(child.pid);
    }
    return ended;
  };
  return { child, ended, kill };
}

/** The first process of a namespace takes all others with it, and the outer end exits only after them. */
function killNamespace(child: ChildProcess, pid: number): void {
  const inner = childrenOf(pid);
  if (inner.length === 0) {
    signalGroup(pid);
    return;
  }
  for (const each of inner) signalOne(each);
  const timer = setTimeout(() => signalGroup(pid), 1000);
  child.once("exit", () => clearTimeout(timer));
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function signalGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    signalOne(pid);
  }
}

function signalOne(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

const MAX_SWEEPS = 100;

/** Kills what is left of a group, then whatever carries the mark, until a look finds nothing. */
async function sweep(pid: number | undefined, mark: string): Promise<void> {
  if (pid !== undefined) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // The group is empty.
    }
  }
  for (let round = 0; round < MAX_SWEEPS; round++) {
    const left = await marked(mark);
    if (left.length === 0) return;
    for (const each of left) signalOne(each);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Processes whose environment carries the mark. Zombies have none. */
async function marked(mark: string): Promise<number[]> {
  if (!linux) return [];
  const entry = `${MARK}=${mark}`;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const found: number[] = [];
  const BATCH = 64;
  for (let start = 0; start < pids.length; start += BATCH) {
    const batch = pids.slice(start, start + BATCH).map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      if (environment.split("\0").includes(entry)) found.push(Number(pid));
    });
    await Promise.all(batch);
  }
  return found;
}

export interface RunRequest extends Omit<StartRequest, "stdio"> {
  /** Text for standard input; absent: `/dev/null`. */
  input?: string | Uint8Array;
  /** Milliseconds; absent: none. */
  timeout?: number;
  signal?: AbortSignal;
  /** Bytes of output that are kept, half from the beginning and half from the end. Default 512 KiB. */
  keep?: number;
  /** Bytes of output after which everything is killed. Default 64 MiB. */
  limit?: number;
  /** Sees each piece of output; false kills everything ("stopped"). */
  onOutput?: (piece: Buffer) => boolean | undefined;
}

export interface RunOutcome extends ProcessExit {
  /** Standard output and standard error in the order of their arrival, as UTF-8. */
  output: string;
  /** Bytes that were written. */
  produced: number;
  /** The middle of the output was left out. */
  clipped: boolean;
  ended: "exited" | "timeout" | "aborted" | "output_limit" | "stopped" | "not_started";
}

const DEFAULT_KEEP = 512 * 1024;
const DEFAULT_LIMIT = 64 * 1024 * 1024;
/** Milliseconds that a pipe may stay open after everything that could write to it was killed. */
const DRAIN = 2000;

/** Runs a process to its end, or ends it with all its descendants. Never rejects for what the process does. */
export async function runProcess(request: RunRequest): Promise<RunOutcome> {
  const kept = new KeptOutput(request.keep ?? DEFAULT_KEEP);
  let reason: RunOutcome["ended"] = "exited";
  if (request.signal?.aborted) return outcome({ exitCode: null, signalName: null }, kept, "aborted");
  const pipe = await openPipe().catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
  if (pipe instanceof Error) return outcome({ exitCode: null, signalName: null, error: pipe }, kept, "not_started");
  const input = request.input === undefined ? "ignore" : "pipe";
  let running: RunningProcess;
  try {
    running = startProcess({ ...request, stdio: [input, pipe.writer, pipe.writer] });
  } catch (thrown) {
    pipe.reader.destroy();
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    return outcome({ exitCode: null, signalName: null, error }, kept, "not_started");
  } finally {
    closeSync(pipe.writer);
  }
  const stop = (why: RunOutcome["ended"]) => {
    if (reason === "exited") reason = why;
    running.kill().catch(() => undefined);
  };
  pipe.reader.on("data", (piece: Buffer) => {
    kept.add(piece);
    if (reason !== "exited") return;
    if (request.onOutput?.(piece) === false) stop("stopped");
    else if (kept.produced > (request.limit ?? DEFAULT_LIMIT)) stop("output_limit");
  });
  const drained = new Promise<void>((resolve) => {
    pipe.reader.once("close", () => resolve());
    pipe.reader.once("error", () => resolve());
  });
  const { stdin } = running.child;
  stdin?.on("error", () => undefined);
  stdin?.end(request.input);
  const timer = request.timeout === undefined ? undefined : setTimeout(() => stop("timeout"), request.timeout);
  const onAbort = () => stop("aborted");
  request.signal?.addEventListener("abort", onAbort, { once: true });
  const exit = await running.ended;
  clearTimeout(timer);
  request.signal?.removeEventListener("abort", onAbort);
  stdin?.destroy();
  const drain = setTimeout(() => pipe.reader.destroy(), DRAIN);
  await drained;
  clearTimeout(drain);
  return outcome(exit, kept, exit.error ? "not_started" : reason);
}

function outcome(exit: ProcessExit, kept: KeptOutput, ended: RunOutcome["ended"]): RunOutcome {
  return { ...exit, output: kept.text(), produced: kept.produced, clipped: kept.clipped, ended };
}

/**
 * A real pipe for both outputs. Node's own are sockets, two of them: their order is lost, and a command that
 * writes to `/dev/stderr` fails.
 */
async function openPipe(): Promise<{ reader: Socket; writer: number }> {
  const { Socket } = await import("node:net");
  swept ??= removeOldPipes();
  await swept;
  const path = join(tmpdir(), PIPE_NAME + uniqueName());
  await promisify(execFile)("mkfifo", ["-m", "600", path]);
  let reading: number | undefined;
  try {
    reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    const writer = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW);
    return { reader: new Socket({ fd: reading, readable: true, writable: false }), writer };
  } catch (error) {
    if (reading !== undefined) closeSync(reading);
    throw error;
  } finally {
    unlinkSync(path);
  }
}

const PIPE_NAME = "rotunda-pipe-";
/** Milliseconds. */
const OLD = 60_000;
let swept: Promise<void> | undefined;

/** Names that a process left because it was killed in the moment between making a pipe and opening it. */
async function removeOldPipes(): Promise<void> {
  const found = await readdir(tmpdir()).catch(() => []);
  for (const name of found.filter((each) => each.startsWith(PIPE_NAME))) {
    const path = join(tmpdir(), name);
    const stats = await lstat(path).catch(() => undefined);
    if (stats?.isFIFO() && Date.now() - stats.ctimeMs > OLD) await unlink(path).catch(() => undefined);
  }
}

/** The beginning and the end of a stream of any length, in memory of a fixed size. */
export class KeptOutput {
  produced = 0;
  private readonly half: number;
  private readonly head: Buffer[] = [];
  private headLength = 0;
  private readonly tail: Buffer[] = [];
  private tailLength = 0;

  constructor(keep: number) {
    this.half = Math.max(1, Math.floor(keep / 2));
  }

  get clipped(): boolean {
    return this.produced > this.headLength + this.tailLength || this.tailLength > this.half;
  }

  add(piece: Buffer): void {
    this.produced += piece.length;
    const room = this.half - this.headLength;
    if (room > 0) {
      const first = piece.subarray(0, room);
      this.head.push(first);
      this.headLength += first.length;
    }
    if (piece.length <= room) return;
    const rest = piece.subarray(Math.max(0, room));
    this.tail.push(rest);
    this.tailLength += rest.length;
    for (let first = this.tail[0]; first && this.tailLength - first.length >= this.half; first = this.tail[0]) {
      this.tail.shift();
      this.tailLength -= first.length;
    }
  }

  /** What was kept, cut at whole characters, with a line in between that tells how much is missing. */
  text(): string {
    const head = Buffer.concat(this.head);
    const tail = Buffer.concat(this.tail);
    if (!this.clipped) return Buffer.concat([head, tail]).toString("utf8");
    const end = tail.subarray(Math.max(0, tail.length - this.half));
    const missing = this.produced - head.length - end.length;
    return `${wholeCharacters(head, "end")}\n\n[… ${missing} bytes left out …]\n\n${wholeCharacters(end, "start")}`;
  }
}

/** The text of bytes that may begin or end within a character. */
function wholeCharacters(bytes: Buffer, ragged: "start" | "end"): string {
  if (ragged === "start") {
    let start = 0;
    while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
    return bytes.toString("utf8", start);
  }
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return bytes.toString("utf8", 0, needed > back ? bytes.length - back : bytes.length);
  }
  return bytes.toString("utf8");
}

/**
 * What tells a process from every other that had or will have its id: the start of its machine and its own.
 * Undefined when no such process lives (a zombie does not).
 */
export function processIdentity(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  if (linux) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      // The name in parentheses may hold anything; the fields after it do not.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (fields[0] === "Z" || fields[0] === "X") return undefined;
      const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
      return `${boot}:${fields[19] ?? ""}`;
    } catch {
      return undefined;
    }
  }
  const { stdout } = spawnSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "latin1" });
  const line = (stdout ?? "").trim();
  if (line === "" || line.startsWith("Z")) return undefined;
  return line.replace(/^\S+\s+/, "");
}

/** Whether the process that had this identity still lives. */
export function isProcessAlive(pid: number, identity: string): boolean {
  return processIdentity(pid) === identity;
}
