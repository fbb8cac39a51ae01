/**
 * `rotunda serve` as a process, to be killed and started again at the same address.
 *
 * Invariant: a place is one state directory and one workspace; nothing of it, no process and no file, is left after
 * `remove`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Build } from "./build.ts";

export interface Place {
  folder: string;
  workspace: string;
  state: string;
  /** The database file. */
  database: string;
  environment: NodeJS.ProcessEnv;
  remove(): void;
}

export interface PlaceOptions {
  build: Build;
  /** Base URL of the model. */
  endpoint: string;
  /** Default: a folder of its own inside the place. */
  state?: string;
  /** Further keys of the configuration. */
  config?: object;
  environment?: NodeJS.ProcessEnv;
}

export function makePlace({ build, endpoint, config, environment, ...options }: PlaceOptions): Place {
  const folder = mkdtempSync(join(process.env.ROTUNDA_RELIABILITY_DIR ?? tmpdir(), "rotunda-place-"));
  const workspace = join(folder, "work");
  const state = options.state ?? join(folder, "state");
  const configuration = join(folder, ".config", "rotunda");
  for (const one of [workspace, configuration]) mkdirSync(one, { recursive: true });
  const given = {
    models: [{ id: "test-model", baseUrl: endpoint, apiKey: "sk-test-0123456789" }],
    mcpServers: { counter: { command: process.execPath, args: [build.program("counter-server")], cwd: workspace } },
    permissions: { mode: "auto", ask: ["counter__append_asked"] },
    ...config,
  };
  writeFileSync(join(configuration, "rotunda.yaml"), JSON.stringify(given));
  const { PATH } = process.env;
  return {
    folder,
    workspace,
    state,
    database: join(state, "rotunda.db"),
    environment: { PATH, HOME: folder, ROTUNDA_HOME: state, NO_COLOR: "1", ...environment },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Lines of a file of effects. */
export function linesOf(path: string): string[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8").split("\n").filter(Boolean);
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** What it said on stderr. */
  said: string;
  out: string;
}

/** Runs the built program to its end. */
export function runRotunda(build: Build, place: Place, args: readonly string[], patience = 60_000): Promise<Ended> {
  return ended(spawnRotunda(build, place, args), patience);
}

function spawnRotunda(
  build: Build,
  place: Place,
  args: readonly string[],
  before: readonly string[] = [],
  node: readonly string[] = [],
): ChildProcess {
  const [command = process.execPath, ...rest] = [...before, process.execPath, ...node, build.rotunda, ...args];
  return spawn(command, rest, { cwd: place.workspace, env: place.environment, stdio: ["ignore", "pipe", "pipe"] });
}

export function ended(child: ChildProcess, patience: number): Promise<Ended> {
  const result: Ended = { code: null, signal: null, said: "", out: "" };
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    result.said += text;
  });
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    result.out += text;
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), patience);
  return new Promise((resolve) => {
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ ...result, code, signal });
    });
  });
}

export interface ServerOptions {
  build: Build;
  place: Place;
  /** A program with arguments that starts it. */
  before?: readonly string[];
  flags?: readonly string[];
  /** Flags of Node itself. */
  node?: readonly string[];
}

/** One server, at one address as long as it lives, and in all its lives. */
export class Server {
  readonly #options: ServerOptions;
  readonly #port: number;
  #child: ChildProcess | undefined;
  #end: Promise<Ended> | undefined;
  /** What all its lives have said on stderr. */
  log = "";
  /** Of its lives so far. */
  starts = 0;

  constructor(options: ServerOptions, port: number) {
    this.#options = options;
    this.#port = port;
  }

  static async on(options: ServerOptions): Promise<Server> {
    return new Server(options, await freePort());
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get token(): string {
    return readFileSync(join(this.#options.place.state, "token"), "utf8").trim();
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Resolves when it listens, with the milliseconds that it took. Throws with its words where it does not. */
  async start(): Promise<number> {
    const { build, place, before, node, flags = [] } = this.#options;
    const began = performance.now();
    const child = spawnRotunda(
      build,
      place,
      ["serve", "--port", String(this.#port), "--quiet", ...flags],
      before,
      node,
    );
    this.#child = child;
    this.starts++;
    const end = ended(child, 3_600_000);
    this.#end = end;
    child.stderr?.on("data", (text: string) => {
      this.log += text;
    });
    await new Promise<void>((resolve, reject) => {
      let out = "";
      child.stdout?.on("data", (text: string) => {
        out += text;
        if (out.includes("listening on")) resolve();
      });
      child.once("error", reject);
      end.then(
        ({ code, signal, said }) => reject(new Error(`rotunda serve ended (${code ?? signal}): ${said}`)),
        reject,
      );
    });
    return performance.now() - began;
  }

  /** Sends a signal, and waits for the end. */
  async stop(signal: NodeJS.Signals): Promise<Ended & { took: number }> {
    const began = performance.now();
    this.#child?.kill(signal);
    const end = (await this.#end) ?? { code: 0, signal: null, said: "", out: "" };
    return { ...end, took: performance.now() - began };
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }
}

/** Free at this moment; whoever kills and starts again keeps it. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Asks again and again until it is true. False: it did not become so in time. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  patience = 10_000,
  pause = 20,
): Promise<boolean> {
  const until = performance.now() + patience;
  for (;;) {
    if (await condition()) return true;
    if (performance.now() > until) return false;
    await sleep(pause);
  }
}
