/**
 * Child processes of the measurements, and what the kernel counts of them.
 *
 * Invariant: nothing outlives `close`; a child that fails is an error with its own words, never a number.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Answers, Job, Outcome } from "./programs/messages.ts";

export const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export const ROTUNDA = process.env.BENCH_ROTUNDA ?? here("../bin/rotunda.js");
export const BARE_POST = here("./bare/post.js");
export const BARE_LOOP = here("./bare/loop.js");

/** Milliseconds on a clock that all processes of the machine share. */
export const sharedNow = (): number => Number(process.hrtime.bigint()) / 1e6;

export interface Place {
  folder: string;
  workspace: string;
  state: string;
  /** Nothing of the person's own settings and keys reaches a measurement. */
  environment: NodeJS.ProcessEnv;
  remove(): void;
}

/** A folder of its own with a workspace in it; `config` becomes its rotunda.yaml. */
export function makePlace(config = ""): Place {
  const folder = mkdtempSync(join(process.env.ROTUNDA_BENCH_DIR ?? tmpdir(), "rotunda-bench-"));
  const workspace = folder;
  const state = join(folder, "state");
  if (config !== "") writeFileSync(join(workspace, "rotunda.yaml"), config);
  const { PATH } = process.env;
  const environment = { PATH, HOME: folder, ROTUNDA_HOME: state, NO_COLOR: "1" };
  return { folder, workspace, state, environment, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** The configuration of one model at the upstream, that a project file may hold without being trusted: loopback. */
export function modelConfig(url: string, more = ""): string {
  return `models:\n  - id: bench\n    baseUrl: ${url}\n    model: test-model\n    apiKey: bench-key\n${more}`;
}

/** Runs a Node program to its end. Resolves with wall time in milliseconds; rejects unless it exits with 0. */
export function runNode(args: readonly string[], place: Pick<Place, "workspace" | "environment">): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const child = spawn(process.execPath, args, {
      cwd: place.workspace,
      env: place.environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    child.stdout.resume();
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(performance.now() - began);
      else reject(new Error(`${args.join(" ")} ended with ${code}: ${said.slice(0, 2_000)}`));
    });
  });
}

/**
 * Bytes that this process and its children that have ended sent to disk, by the kernel's count of pages: what
 * was taken back before it got there (SQLite's shared memory, a file that is removed on closing) is not in it.
 */
export function bytesWritten(): number {
  const text = readFileSync("/proc/self/io", "utf8");
  const count = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(text)?.[1] ?? Number.NaN);
  return count("write_bytes") - count("cancelled_write_bytes");
}

export interface UpstreamProcess {
  url: string;
  /** Moment (`sharedNow`) at which the newest request had arrived, and its body. */
  last(): Promise<Answers["last"]>;
  close(): void;
}

/** A fast model endpoint in a process of its own. */
export async function startUpstreamProcess(): Promise<UpstreamProcess> {
  const child = fork(here("./programs/upstream.ts"), { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const { url } = await answer<Answers["ready"]>(child);
  return {
    url,
    last() {
      child.send("last");
      return answer<Answers["last"]>(child);
    },
    close: () => child.kill(),
  };
}

export interface Worker {
  run(job: Job): Promise<Outcome>;
  close(): void;
}

/** A program that runs jobs one after the other in one process. */
export async function startWorker(program: string, place: Place, settings: Record<string, string>): Promise<Worker> {
  const env = { ...place.environment, ...settings };
  const child = fork(program, { cwd: place.workspace, env, stdio: ["ignore", "ignore", "pipe", "ipc"] });
  await answer(child);
  return {
    run(job) {
      child.send(job);
      return answer<Outcome>(child);
    },
    close: () => child.kill(),
  };
}

export function answer<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    let said = "";
    const onText = (text: string) => {
      said = `${said}${text}`.slice(-500);
    };
    const onClose = (code: number | null) => reject(new Error(`${child.spawnargs[1]} ended with ${code}: ${said}`));
    child.stderr?.setEncoding("utf8").on("data", onText);
    child.once("close", onClose);
    child.once("message", (message) => {
      child.stderr?.off("data", onText);
      child.off("close", onClose);
      resolve(message as T);
    });
  });
}
