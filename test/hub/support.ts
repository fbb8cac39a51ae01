/** What the hub's tests share: hostile servers with journals, a context for calls, counting processes. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { createHub } from "../../src/hub/hub.ts";
import type { Hub, HubOptions, HubTool, LaunchRequest } from "../../src/hub/hub-types.ts";
import type { HostileOptions } from "../../src/testing/hostile-mcp-server.ts";
import type { ServerConfig } from "../../src/types/config.ts";
import type { Notice } from "../../src/types/event.ts";
import type { JsonObject } from "../../src/types/json.ts";
import type { ToolContext, ToolResult } from "../../src/types/tool.ts";

export const fixtures = join(import.meta.dirname, "../fixtures/mcp");
export const hostileScript = join(fixtures, "hostile.ts");

const cleanups: (() => Promise<void> | void)[] = [];

/** Runs after the test, last registered first. */
export function cleanup(action: () => Promise<void> | void): void {
  cleanups.push(action);
}

afterEach(async () => {
  for (const action of cleanups.splice(0).reverse()) await action();
});

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "rotunda-hub-"));
  cleanup(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A hostile server's configuration and its journal. */
export function hostile(
  directory: string,
  options: HostileOptions,
  config: Partial<ServerConfig> = {},
): ServerConfig & { journal: () => string[] } {
  const name = config.name ?? "hostile";
  const path = join(directory, `${name}.journal`);
  const base: ServerConfig = {
    name,
    transport: "stdio",
    command: process.execPath,
    args: [hostileScript, JSON.stringify({ journal: path, ...options }), `marker=${directory}`],
    disabled: false,
    origin: "test",
    ...config,
  };
  return { ...base, journal: () => readLines(path) };
}

export function readLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").trimEnd().split("\n");
  } catch {
    return [];
  }
}

export function count(lines: string[], beginning: string): number {
  return lines.filter((line) => line.startsWith(beginning)).length;
}

export interface TestHub extends Hub {
  notices: Notice[];
}

/** A hub that is closed after the test. Its launch function adds nothing. */
export function openHub(directory: string, servers: ServerConfig[], options: Partial<HubOptions> = {}): TestHub {
  const notices: Notice[] = [];
  const hub = createHub({
    servers,
    stateDir: directory,
    workspace: directory,
    launch: async ({ command, args, env, cwd }: LaunchRequest) => ({ command, args, env, cwd }),
    notify: (notice) => notices.push(notice),
    ...options,
  });
  cleanup(() => hub.close());
  return Object.assign(hub, { notices });
}

export async function tool(hub: Hub, name: string): Promise<HubTool> {
  const found = await hub.find(name);
  if (!found) throw new Error(`no tool ${name} among ${(await hub.list()).map((each) => each.name).join(", ")}`);
  return found;
}

export async function call(hub: Hub, name: string, input: JsonObject = {}, signal?: AbortSignal): Promise<ToolResult> {
  return (await tool(hub, name)).run(input, context(signal));
}

export function context(signal: AbortSignal = new AbortController().signal, notes: string[] = []): ToolContext {
  return {
    workspace: "/",
    signal,
    responseId: "resp_1",
    itemId: "mcp_1",
    profile: "general",
    depth: 0,
    isolation: { readOnly: false, network: false },
    progress: (text) => notes.push(text),
    delegate: () => Promise.reject(new Error("not here")),
    readOutput: async () => undefined,
  };
}

/** Process ids whose command line holds the text. */
export function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        // A zombie has no command line.
        return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(text);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Waits until the condition holds; fails after `seconds`. */
export async function until(condition: () => boolean | Promise<boolean>, seconds = 15): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited ${seconds} s in vain for ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
