/** An app with stand-ins for external agents: real processes, real files, real configuration. */
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { App } from "../../src/types/app.ts";
import type { AgentConfig } from "../../src/types/config.ts";
import type { McpCallItem } from "../../src/types/item.ts";
import type { Model } from "../../src/types/model.ts";
import type { FullResponse } from "../../src/types/response.ts";
import { type OpenedApp, openApp, type Place, place } from "../app/support.ts";
import { modelOf, say, type TestModel } from "../support.ts";

const FIXTURES = join(import.meta.dirname, "..", "fixtures", "agents");

/** A program that runs a stand-in. */
export function program(here: Place, fixture: "claude" | "acp", name: string): string {
  const path = join(here.root, name);
  mkdirSync(join(path, ".."), { recursive: true });
  const script = `#!/bin/sh\nexec "${process.execPath}" --no-warnings "${join(FIXTURES, `${fixture}.ts`)}" "$@"\n`;
  writeFileSync(path, script);
  chmodSync(path, 0o755);
  return path;
}

export interface AgentBench {
  here: Place;
  app: OpenedApp;
  http: TestModel;
  home: string;
  /** What each process was started with. */
  starts(): { args: string[]; env: Record<string, string>; cwd: string; pid: number }[];
}

export interface BenchOptions {
  agent?: Partial<Omit<AgentConfig, "id">>;
  config?: object;
  variables?: NodeJS.ProcessEnv;
  models?: Model[];
  here?: Place;
}

/** An app whose `claude-code` is the stand-in. */
export async function claudeBench(options: BenchOptions = {}): Promise<AgentBench> {
  const here = options.here ?? place(options.variables);
  const home = join(here.root, "home");
  mkdirSync(home, { recursive: true });
  const command = options.agent?.command ?? program(here, "claude", "bin/claude");
  here.put("home/.config/rotunda/rotunda.yaml", {
    agents: { "claude-code": { command, ...options.agent } },
    ...options.config,
  });
  const http = modelOf([say("from http")], "http");
  const app = await openApp(here, options.models ?? [http]);
  const starts = () =>
    readFileSync(join(home, "starts.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as ReturnType<AgentBench["starts"]>[number]);
  return { here, app, http, home, starts };
}

export async function turn(app: App, input: string, more: object = {}): Promise<FullResponse> {
  const request = { input, model: "claude-code", workspace: app.workspace, door: "test", ...more };
  const { id } = await app.engine.start(request);
  await app.engine.wait(id);
  return app.engine.get(id);
}

export function calls(response: FullResponse): McpCallItem[] {
  return response.output.filter((item) => item.type === "mcp_call");
}

/** Asks in a process of its own, and kills that as soon as `when` holds. */
export async function killed(here: Place, input: string, when: () => boolean | Promise<boolean>): Promise<string> {
  const child = spawn(process.execPath, ["--no-warnings", join(FIXTURES, "run.ts"), here.root, input], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  const gone = new Promise((resolve) => child.once("exit", resolve));
  const until = Date.now() + 20_000;
  let reached = false;
  while (!reached && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    reached = out.includes("\n") && (await when());
  }
  child.kill("SIGKILL");
  await gone;
  expect(reached, out).toBe(true);
  return out.trim();
}
