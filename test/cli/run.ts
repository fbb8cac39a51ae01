/** Runs the built program as a person would, and collects what it says. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../support.ts";

export const BIN = join(import.meta.dirname, "..", "..", "bin", "rotunda.js");

export interface Result {
  code: number | null;
  signal: string | null;
  out: string;
  err: string;
}

export interface Home {
  workspace: string;
  environment: NodeJS.ProcessEnv;
  /** Runs to the end. */
  run(args: string[], options?: { input?: string }): Promise<Result>;
  /** Starts, to be watched or killed. */
  start(args: string[]): Started;
}

export interface Started {
  child: ChildProcess;
  result: Promise<Result>;
  out(): string;
  err(): string;
}

/** An empty HOME, an empty workspace, no key in the environment. */
export function home(variables: NodeJS.ProcessEnv = {}): Home {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  mkdirSync(workspace);
  const environment: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: join(root, "home"),
    ROTUNDA_HOME: join(root, "state"),
    // Nothing listens there: no local model is found by chance.
    OLLAMA_HOST: "http://127.0.0.1:9",
    ...variables,
  };
  mkdirSync(join(root, "home"));
  const start = (args: string[], input?: string): Started => {
    const child = spawn(process.execPath, [BIN, ...args], {
      cwd: workspace,
      env: environment,
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    let out = "";
    let err = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      out += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      err += text;
    });
    if (input !== undefined) child.stdin?.end(input);
    const result = new Promise<Result>((resolve) => {
      child.on("close", (code, signal) => resolve({ code, signal, out, err }));
    });
    return { child, result, out: () => out, err: () => err };
  };
  return { workspace, environment, run: (args, options) => start(args, options?.input).result, start };
}
