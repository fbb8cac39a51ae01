/**
 * Agent processes: an external agent's program with pipes for its three streams.
 *
 * Invariant: no more than its limit run at once, the rest wait in line; when `close` or an abort has ended one,
 * nothing that it started runs any more; memory is bounded by one line of 32 MiB and 64 kB of stderr.
 */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ModelError } from "../types/model.ts";
import { type ProcessExit, type RunningProcess, startProcess } from "../util/process-tree.ts";

export interface AgentCommand {
  /** Absolute path. */
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
}

/** What really is started for a command: the same, shut into a process namespace that ends with us where there is one. */
export type AgentLaunch = (command: AgentCommand) => Promise<AgentCommand & { namespaced: boolean; release(): void }>;

export interface AgentStart {
  /** Whose slots it takes. */
  id: string;
  /** For messages: "Claude Code". */
  title: string;
  maximum: number;
  command: AgentCommand;
  launch: AgentLaunch;
  signal: AbortSignal;
  /** It has to wait in line. */
  onWait(text: string): void;
  onLine(line: string): void;
}

const MAX_LINE = 32 * 1024 * 1024;
const STDERR_KEPT = 64 * 1024;
/** Milliseconds for the last output of a process that is dead. */
const DRAIN = 500;

// ---- where programs are

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The absolute path of a program by name or path; undefined where there is none. */
export function findProgram(name: string, environment: NodeJS.ProcessEnv): string | undefined {
  if (name.includes("/")) return isAbsolute(name) && isProgram(name) ? name : undefined;
  const folders = (environment.PATH ?? "").split(delimiter).filter(isAbsolute);
  return folders.map((folder) => join(folder, name)).find(isProgram);
}

/** Throws `usage` where it is no directory that can be worked in. */
export function checkDirectory(path: string): void {
  try {
    if (!statSync(path).isDirectory()) throw new Error("not a directory");
  } catch {
    throw new ModelError("usage", `Working directory does not exist: ${path}`);
  }
  try {
    accessSync(path, constants.R_OK | constants.X_OK);
  } catch {
    throw new ModelError("usage", `Working directory is not accessible: ${path}`);
  }
}

// ---- the line

interface Slots {
  active: number;
  waiting: (() => void)[];
}

/** Of this process, whichever registry or configuration asks. */
const slots = new Map<string, Slots>();

async function takeSlot({ id, title, maximum, signal, onWait }: AgentStart): Promise<() => void> {
  const line = slots.get(id) ?? { active: 0, waiting: [] };
  slots.set(id, line);
  if (line.active >= maximum) {
    onWait(`${line.active} of ${title} run already: waiting in line`);
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        line.waiting = line.waiting.filter((next) => next !== go);
        reject(cancelled());
      };
      const go = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      line.waiting.push(go);
    });
  } else line.active++;
  return () => {
    // Whoever is next takes the slot over as it is.
    const next = line.waiting.shift();
    if (next) next();
    else line.active--;
  };
}

function cancelled(): ModelError {
  return new ModelError("cancelled", "the model call was cancelled");
}

// ---- the process

const live = new Set<RunningProcess>();

function killAllAtExit(): void {
  // The signals are sent before `kill` returns; there is no time to wait for more.
  for (const running of live) void running.kill();
}

export class AgentProcess {
  readonly #start: AgentStart;
  readonly #running: RunningProcess;
  readonly #release: () => void;
  #pending: Buffer[] = [];
  #pendingSize = 0;
  #stderr: Buffer[] = [];
  #stderrSize = 0;
  /** Why we have killed it ourselves. */
  killed: ModelError | undefined;
  /** Resolves when the process and all that it started are dead, and its last line was read. Never rejects. */
  readonly ended: Promise<ProcessExit>;

  private constructor(start: AgentStart, running: RunningProcess, release: () => void) {
    this.#start = start;
    this.#running = running;
    this.#release = release;
    const { child } = running;
    const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
    child.stdout?.on("data", (chunk: Buffer) => this.#receive(chunk));
    child.stderr?.on("data", (chunk: Buffer) => this.#keepStderr(chunk));
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", () => undefined);
    const onAbort = () => void running.kill();
    start.signal.addEventListener("abort", onAbort, { once: true });
    this.ended = running.ended.then(async (exit) => {
      await Promise.race([closed, sleep(DRAIN, undefined, { ref: false })]);
      start.signal.removeEventListener("abort", onAbort);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
      if (this.#pendingSize > 0) this.#readLine(Buffer.concat(this.#pending));
      this.#release();
      return exit;
    });
  }

  /** Waits in line where it must. Throws `ModelError`. */
  static async start(start: AgentStart): Promise<AgentProcess> {
    const { title, command, signal } = start;
    checkDirectory(command.cwd);
    if (!isProgram(command.command)) throw notSpawned(title, `spawn ${command.command} ENOENT`);
    const giveBack = await takeSlot(start);
    let made: AgentProcess | undefined;
    try {
      if (signal.aborted) throw cancelled();
      const { release, ...launched } = await start.launch(command);
      const running = startProcess({ ...launched, stdio: ["pipe", "pipe", "pipe"] });
      if (live.size === 0) process.once("exit", killAllAtExit);
      live.add(running);
      made = new AgentProcess(start, running, () => {
        live.delete(running);
        if (live.size === 0) process.removeListener("exit", killAllAtExit);
        release();
        giveBack();
      });
      await new Promise<void>((resolve) => {
        running.child.once("spawn", resolve);
        running.child.once("error", () => resolve());
      });
      const { child } = running;
      if (child.pid === undefined) {
        const { error } = await made.ended;
        throw notSpawned(title, error?.message ?? `spawn ${command.command}`);
      }
      if (signal.aborted) void running.kill();
      return made;
    } catch (error) {
      // The end of a process gives its slot back by itself.
      if (!made) giveBack();
      throw error;
    }
  }

  get pid(): number | undefined {
    return this.#running.child.pid;
  }

  /** For libraries that read and write the streams themselves; `onLine` hears nothing then. */
  get streams(): RunningProcess["child"] {
    return this.#running.child;
  }

  /** The last 64 kB that it wrote to stderr, without what surrounds the words. */
  get stderr(): string {
    return Buffer.concat(this.#stderr).subarray(-STDERR_KEPT).toString("utf8").trim();
  }

  /** What nobody reads any more is dropped. */
  send(message: object): void {
    const { stdin } = this.#running.child;
    if (stdin?.writable) stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** No more input: a program that has nothing left to do ends by itself. Kills it where it does not, after `patience` milliseconds. */
  async close(patience: number): Promise<ProcessExit> {
    this.#running.child.stdin?.end();
    const timer = setTimeout(() => void this.#running.kill(), patience);
    const exit = await this.ended;
    clearTimeout(timer);
    return exit;
  }

  async kill(why?: ModelError): Promise<ProcessExit> {
    this.killed ??= why;
    await this.#running.kill();
    return this.ended;
  }

  #receive(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const part = chunk.subarray(start, end);
      start = end + 1;
      const line = this.#pendingSize === 0 ? part : Buffer.concat([...this.#pending, part]);
      this.#pending = [];
      this.#pendingSize = 0;
      this.#readLine(line);
    }
    if (start === chunk.length || this.killed) return;
    this.#pending.push(Buffer.from(chunk.subarray(start)));
    this.#pendingSize += chunk.length - start;
    if (this.#pendingSize <= MAX_LINE) return;
    this.#pending = [];
    this.#pendingSize = 0;
    const text = `${this.#start.title} wrote a line of more than ${MAX_LINE} bytes and was killed`;
    void this.kill(new ModelError("output_limit", text));
  }

  #readLine(line: Buffer): void {
    if (!this.killed) this.#start.onLine(line.toString("utf8"));
  }

  #keepStderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
    this.#stderrSize += chunk.length;
    if (this.#stderrSize <= 2 * STDERR_KEPT && this.#stderr.length <= 256) return;
    const kept = Buffer.concat(this.#stderr).subarray(-STDERR_KEPT);
    this.#stderr = [Buffer.from(kept)];
    this.#stderrSize = kept.length;
  }
}

function notSpawned(title: string, why: string): ModelError {
  return new ModelError("upstream_unreachable", `Failed to spawn ${title} process: ${why}`);
}
