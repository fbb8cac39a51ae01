/**
 * The processes of a measurement over HTTP, each of its own: the endpoint, the bare relay, `rotunda serve`, the client.
 *
 * Invariant: nothing outlives `close`; what the kernel counts of a server is read from outside of it.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { answer, here, type Place, ROTUNDA } from "./processes.ts";
import type { Load, Loaded } from "./programs/messages.ts";

export interface ServerProcess {
  url: string;
  /** What its requests must bring. */
  token: string;
  pid: number;
  close(): Promise<void>;
}

/** A program that says over IPC where it listens. */
async function startListening(program: string, env: Record<string, string>): Promise<ServerProcess> {
  const child = fork(program, { env: { PATH: process.env.PATH, ...env }, stdio: ["ignore", "ignore", "pipe", "ipc"] });
  const { url } = await answer<{ url: string }>(child);
  return { url, token: "none", pid: child.pid ?? 0, close: () => ended(child) };
}

export const startEndpoint = (): Promise<ServerProcess> => startListening(here("./programs/endpoint.ts"), {});

export const startRelay = (url: string): Promise<ServerProcess> =>
  startListening(here("./bare/relay.js"), { BENCH_URL: url });

/** The built program. Its configuration is the place's `rotunda.yaml`. */
export function startRotunda(place: Place): Promise<ServerProcess> {
  const env = {
    ...place.environment,
    ROTUNDA_CONFIG: join(place.folder, "rotunda.yaml"),
  };
  const child = spawn(process.execPath, [ROTUNDA, "serve", "--port", "0", "--quiet"], {
    cwd: place.workspace,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  return new Promise((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = `${said}${text}`.slice(-2_000);
    });
    child.once("close", (code) => reject(new Error(`rotunda serve ended with ${code}: ${said}`)));
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
      const url = /listening on (\S+)\n/.exec(out)?.[1];
      if (url === undefined) return;
      const token = readFileSync(join(place.state, "token"), "utf8").trim();
      resolve({ url, token, pid: child.pid ?? 0, close: () => ended(child) });
    });
  });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("close", () => resolve());
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), 15_000).unref();
  });
}

export interface Client {
  run(load: Load): Promise<Loaded>;
  close(): void;
}

export async function startClient(): Promise<Client> {
  const child = fork(here("./programs/load.ts"), { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await answer(child);
  return {
    run(load) {
      child.send(load);
      return answer<Loaded>(child);
    },
    close: () => child.kill(),
  };
}

/** Microseconds of user and system time, by the kernel's count (in hundredths of a second). */
export function cpuOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** Megabytes that it had at most so far. */
export function peakOf(pid: number): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes ?? Number.NaN) / 1024;
}

/** The same, apart. */
export function timesOf(pid: number): { user: number; system: number } {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { user: Number(fields[11]) * 10_000, system: Number(fields[12]) * 10_000 };
}
