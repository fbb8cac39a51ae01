/**
 * A real terminal for tests: the program in tmux, keys typed into it, its screen read back, compared with golden
 * screens.
 *
 * Invariant: each terminal has a tmux server of its own, which ends with its test. Where the machine has no tmux,
 * suites say aloud that they are skipped. `ROTUNDA_WRITE_GOLDEN=1` writes the golden screens anew; what differs from
 * run to run (ids, times, what turns) is masked in both.
 */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { startUpstream, type Upstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { BIN, type Home, home } from "../cli/run.ts";
import { later } from "../support.ts";

export const hasTmux = spawnSync("tmux", ["-V"]).status === 0;

let told = false;

/** Says once that what needs a terminal is skipped. */
export function tellMissing(): void {
  if (hasTmux || told) return;
  told = true;
  process.stderr.write(
    "\nSKIPPED: no tmux on this machine; the terminal's suites do not run (apt-get install tmux)\n\n",
  );
}

export interface Place {
  at: Home;
  upstream: Upstream;
}

/** A home whose configuration knows two models at a scripted endpoint. */
export async function place(script: UpstreamScript, rest: object = {}): Promise<Place> {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  const at = home();
  const file = join(at.workspace, "..", "rotunda.yaml");
  const price = { input: 1, output: 10 };
  const models = ["first", "second"].map((id) => ({
    id,
    model: id,
    baseUrl: upstream.url,
    apiKey: "sk-test-0123456789",
    contextWindow: 1_000,
    price,
  }));
  writeFileSync(file, JSON.stringify({ models, ...rest }));
  at.environment.ROTUNDA_CONFIG = file;
  return { at, upstream };
}

export interface TerminalOptions {
  columns?: number;
  rows?: number;
  term?: string;
  environment?: NodeJS.ProcessEnv;
}

const program = process.env.ROTUNDA_TEST_BIN ?? BIN;

export class Terminal {
  readonly #socket = `rotunda-test-${process.pid}-${randomBytes(4).toString("hex")}`;
  readonly #log: string;

  /** Runs `rotunda` with these words. */
  constructor({ workspace, environment }: Home, words: readonly string[], options: TerminalOptions = {}) {
    const { columns = 100, rows = 30, term = "screen-256color" } = options;
    this.#log = join(workspace, "..", `${this.#socket}.log`);
    const variables = { ...environment, TERM: term, LANG: "C.UTF-8", ...options.environment };
    const assigned = Object.entries(variables).map(([name, value]) => quoted(`${name}=${value ?? ""}`));
    const run = ["env -i", ...assigned, quoted(process.execPath), quoted(program), ...words.map(quoted)].join(" ");
    // tmux itself now and then loses how a program has ended.
    const command = `${run}; echo $? > ${quoted(`${this.#log}.exit`)}`;
    this.#tmux(
      "-f",
      "/dev/null",
      "new-session",
      "-d",
      "-x",
      String(columns),
      "-y",
      String(rows),
      "-c",
      workspace,
      "cat",
    );
    this.#tmux("set-option", "-g", "remain-on-exit", "on");
    this.#tmux("set-option", "-g", "history-limit", "5000");
    // What the program writes, byte for byte, from its first one on.
    this.#tmux("pipe-pane", "-O", `cat >> ${quoted(this.#log)}`);
    this.#tmux("respawn-pane", "-k", "-c", workspace, command);
    later(() => this.close());
  }

  #tmux(...words: string[]): string {
    const { status, stdout, stderr } = spawnSync("tmux", ["-L", this.#socket, ...words], {
      encoding: "utf8",
      maxBuffer: 100_000_000,
    });
    if (status !== 0) throw new Error(`tmux ${words[0]}: ${stderr}`);
    return stdout;
  }

  close(): void {
    spawnSync("tmux", ["-L", this.#socket, "kill-server"]);
  }

  /** Keys by tmux's names: Enter, C-c, M-Enter, Up, Escape. */
  press(...keys: string[]): void {
    this.#tmux("send-keys", ...keys);
  }

  /** Text as if it were typed. */
  type(text: string): void {
    this.#tmux("send-keys", "-l", text);
  }

  /** A message, sent. */
  say(text: string): void {
    this.type(text);
    this.press("Enter");
  }

  /** Text as a terminal pastes it. */
  paste(text: string): void {
    const file = `${this.#log}.paste`;
    writeFileSync(file, text);
    this.#tmux("load-buffer", file);
    this.#tmux("paste-buffer", "-p", "-r");
  }

  resize(columns: number, rows: number): void {
    this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  /** The screen's text, without colours. */
  screen(): string {
    return this.#tmux("capture-pane", "-p").replace(/[ \t]+$/gm, "");
  }

  /** With its colours. */
  coloured(): string {
    return this.#tmux("capture-pane", "-p", "-e").replace(/[ \t]+$/gm, "");
  }

  /** Every byte that the program has written. */
  raw(): string {
    return existsSync(this.#log) ? readFileSync(this.#log, "utf8") : "";
  }

  /** Process id of the program. */
  get pid(): number {
    const shell = this.#tmux("display-message", "-p", "#{pane_pid}").trim();
    return Number(readFileSync(`/proc/${shell}/task/${shell}/children`, "utf8").trim().split(" ")[0]);
  }

  /** Exit code as a shell sees it; undefined while it runs. */
  get exit(): number | undefined {
    const file = `${this.#log}.exit`;
    const text = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
    return text === "" ? undefined : Number(text);
  }

  /** It has ended with this exit code, and the terminal is as it was: no other screen, no mouse, a cursor. */
  async left(code: number): Promise<void> {
    await expect.poll(() => this.exit, soon).toBe(code);
    const raw = this.raw();
    const last = (on: string, off: string) => raw.lastIndexOf(on) < raw.lastIndexOf(off);
    expect({
      screen: last("\u001b[?1049h", "\u001b[?1049l"),
      mouse: last("\u001b[?1006h", "\u001b[?1006l"),
      paste: last("\u001b[?2004h", "\u001b[?2004l"),
      cursor: last("\u001b[?25l", "\u001b[?25h"),
      wrap: last("\u001b[?7l", "\u001b[?7h"),
    }).toEqual({ screen: true, mouse: true, paste: true, cursor: true, wrap: true });
  }

  async shows(text: string | RegExp): Promise<void> {
    await expect.poll(() => this.screen(), soon).toMatch(text);
  }

  async hides(text: string): Promise<void> {
    await expect.poll(() => this.screen(), soon).not.toContain(text);
  }

  /** The screen comes to look like the golden one of this name. */
  async looksLike(name: string): Promise<void> {
    const file = join(import.meta.dirname, "golden", `${name}.txt`);
    if (process.env.ROTUNDA_WRITE_GOLDEN) {
      mkdirSync(join(import.meta.dirname, "golden"), { recursive: true });
      writeFileSync(file, await this.#still());
      return;
    }
    const golden = readFileSync(file, "utf8");
    await expect.poll(() => masked(this.coloured()), soon).toBe(golden);
  }

  /** The screen once it has not changed for a while. */
  async #still(): Promise<string> {
    let last = "";
    for (let same = 0; same < 6; ) {
      await sleep(100);
      const now = masked(this.coloured());
      same = now === last ? same + 1 : 0;
      last = now;
    }
    return last;
  }
}

export const soon = { timeout: 15_000, interval: 60 };

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Behind the start of a word, or behind a colour. */
const START = "(?<=^|[^0-9A-Za-z.;[]|\\u001b\\[[0-9;]*m)";
const ID = new RegExp(`${START}(?=[a-z0-9]*\\d)[0-9a-hjkmnp-tv-z]{8}(?![0-9A-Za-z])`, "gm");
/** Where one stands for certain: it may have no digit. */
const LETTERS = "[0-9a-hjkmnp-tv-z]{8}";
const PLACED = new RegExp(
  `(?<=(?:\\b|[0-9]m)(?:at|with|before|--from) |· (?:first|second) · )${LETTERS}\\b|${START}${LETTERS}(?= · (?:first|second|\\d{4}-\\d\\d))`,
  "gm",
);
const TIME = new RegExp(`${START}(?:\\d+m \\d\\ds|\\d+(?:\\.\\d)?m?s)(?![0-9A-Za-z])`, "gm");
/** At the right of the last line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
const DIRECTORY = / +(?:\u001b\[[0-9;]*m)* *[~…/][^\s\u001b]*\/work(?:\u001b\[[0-9;]*m)*$/gm;

/** Ids, times and what turns are not compared. */
export function masked(screen: string): string {
  return (
    screen
      .replace(PLACED, "IDENTITY")
      .replace(ID, "IDENTITY")
      .replace(TIME, "TIME")
      // A thought of a moment has no time.
      .replaceAll("thought TIME", "thought")
      .replace(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/g, "*")
      .replace(/\d{4}-\d\d-\d\d \d\d:\d\d/g, "DATE")
      .replace(/Rotunda \d+\.\d+\.\d+/, "Rotunda VERSION")
      .replace(DIRECTORY, " DIRECTORY")
      .replace(/[ \t]+$/gm, "")
  );
}
