/**
 * Sessions and screens on real apps, for tests that need no terminal.
 *
 * Invariant: two that are opened on one folder are two apps on one database, as two terminals are.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { type Terminal, TuiAltScreen } from "@earendil-works/pi-tui";
import { beforeEach, expect } from "vitest";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { Control } from "../../src/doors/tui/control.ts";
import type { TerminalOptions } from "../../src/doors/tui/options.ts";
import { textOf } from "../../src/doors/tui/reader.ts";
import type { Screen } from "../../src/doors/tui/screen.ts";
import { Session } from "../../src/doors/tui/session.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { Transcript } from "../../src/doors/tui/transcript.ts";
import type { App } from "../../src/types/app.ts";
import type { Engine } from "../../src/types/engine.ts";
import { ModelError, type ModelEvent, type ModelRequest } from "../../src/types/model.ts";
import { callOf, later, modelOf, say, temporaryFolder } from "../support.ts";

export const SOON = { timeout: 10_000 };

let waiting = Promise.withResolvers<void>();
beforeEach(() => {
  waiting = Promise.withResolvers<void>();
});

/** Answers wait for this where they are asked to "wait", or to stop "half" way. */
export const gate = { open: () => waiting.resolve() };

/** Until the gate is open, or nobody wants the answer any more. */
async function wait(signal: AbortSignal): Promise<void> {
  const gone = new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
    if (signal.aborted) reject(new Error("aborted"));
  });
  await Promise.race([waiting.promise, gone]);
}

async function* answer({ history }: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent> {
  const entries = history.at(-1)?.entries ?? [];
  if (entries.some(({ item }) => item.type === "mcp_call")) return yield* say("called");
  const last = entries.findLast(({ item }) => item.type === "message" && item.role === "user")?.item;
  const asked = last?.type === "message" ? textOf(last) : "";
  if (asked.includes("wait")) await wait(signal);
  if (asked.includes("half")) {
    yield { type: "text", delta: "half a sentence" };
    await wait(signal);
    return yield* say(" and the other half");
  }
  if (asked.includes("break")) throw new ModelError("upstream_auth", "the key is refused");
  yield* asked.includes("write") ? callOf(["write", { file_path: "a.txt", content: "a" }]) : say(`to ${asked}`);
}

export interface Opened {
  app: App;
  options: TerminalOptions;
  session: Session;
  root: string;
}

/** `held`: an engine in which some of the calls wait. `root`: of another one, to share its database. */
export async function open(
  held: (engine: Engine) => Partial<Engine> = () => ({}),
  root = temporaryFolder(),
): Promise<Opened> {
  const workspace = join(root, "work");
  mkdirSync(workspace, { recursive: true });
  const stateDirectory = join(root, "state");
  const environment = { ...process.env, HOME: root, ROTUNDA_HOME: stateDirectory };
  const config = await loadConfig({ workspace, environment, flags: {} });
  const model = modelOf([answer]);
  const real = await createApp({ config, workspace, environment, stateDirectory, models: [model] });
  later(() => real.close());
  const engine = new Proxy(real.engine, {
    get(target, name) {
      const own = { ...held(target) }[name as keyof Engine];
      const value: unknown = own ?? target[name as keyof Engine];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const app = new Proxy(real, {
    get: (target, name) => (name === "engine" ? engine : Reflect.get(target, name, target)),
  });
  const options: TerminalOptions = {
    app: async () => app,
    request: async (prompt, { from }) => ({
      input: prompt,
      workspace,
      door: "tui",
      model: model.id,
      ...(from !== undefined && { previousResponseId: from }),
    }),
    start: (_app, request) => app.engine.start(request),
    exportTo: async () => "",
    questions: async () => [],
    answerQuestion: async () => undefined,
    choice: {},
    goesOn: false,
    colour: false,
    version: "1",
    divert: () => undefined,
  };
  const session = new Session(app, new Transcript(), options, () => undefined);
  later(() => session.leave());
  return { app, options, session, root };
}

export const said = (text: string) => ({ text, images: [] });
export const idle = (session: Session) => expect.poll(() => session.running, SOON).toBeUndefined();

/** What a transcript shows. */
export function shownIn(transcript: Transcript, width = 80): string {
  const canvas = { width, look: lookFor(false), now: 0 };
  return stripVTControlCharacters(transcript.blocks.flatMap((block) => [...block.lines(canvas)]).join("\n"));
}

/** A terminal that nobody looks at. */
class Blind implements Terminal {
  readonly kittyProtocolActive = false;
  columns = 100;
  rows = 30;
  start(): void {}
  write(): void {}
  stop(): void {}
  async drainInput(): Promise<void> {}
  moveBy(): void {}
  hideCursor(): void {}
  showCursor(): void {}
  clearLine(): void {}
  clearFromCursor(): void {}
  clearScreen(): void {}
  setTitle(): void {}
  setProgress(): void {}
}

export interface OpenedScreen {
  control: Control;
  screen: Screen;
  /** Exit codes with which it was left. */
  left: number[];
  /** A message or a command, sent. */
  type(text: string): void;
  /** What stands on it. */
  drawn(): string;
}

/** The whole screen, ready. */
export async function screenOf(options: TerminalOptions): Promise<OpenedScreen> {
  const left: number[] = [];
  const control = new Control(
    new TuiAltScreen(new Blind(), false),
    lookFor(false),
    options,
    (code) => left.push(code),
    (error) => {
      throw error;
    },
  );
  later(() => control.close());
  control.open();
  const { screen } = control;
  await expect.poll(() => screen.session?.model ?? "", SOON).not.toBe("");
  return {
    control,
    screen,
    left,
    type(text) {
      screen.editor.setText(text);
      screen.handleInput("\r");
    },
    drawn: () => stripVTControlCharacters(screen.render(100).join("\n")),
  };
}
