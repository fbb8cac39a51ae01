/**
 * The terminal screen: how soon it can be typed into, how soon a key is on the screen of a long conversation, and
 * what an hour of streaming leaves in memory.
 *
 * Invariant: start-up is measured through a real pseudo terminal; the rest is the door's own screen and renderer on a
 * terminal that only counts, in this process, so that nothing but the drawing is measured.
 */
import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Terminal, TuiAltScreen } from "@earendil-works/pi-tui";
import { loadMarkdown, SaidBlock } from "../src/doors/tui/block.ts";
import { Reader } from "../src/doors/tui/reader.ts";
import { Screen } from "../src/doors/tui/screen.ts";
import { lookFor } from "../src/doors/tui/style.ts";
import type { NewEvent, RunEvent } from "../src/types/event.ts";
import { inTurns, type Measurement, median, type Row } from "./measurement.ts";
import { makePlace, modelConfig, type Place, ROTUNDA, sharedNow } from "./processes.ts";

export const terminalStart: Measurement = {
  name: "terminal-start",
  async run({ quick }) {
    const place = makePlace(modelConfig("http://127.0.0.1:9/v1"));
    const cache = join(place.folder, "compile-cache");
    place.environment.NODE_COMPILE_CACHE = cache;
    const open = (mark: string) => () => untilSeen(["node", ROTUNDA, "chat"], mark, place);
    const bare = () => untilSeen(["node", "-e", "0"], undefined, place);
    try {
      await open("new conversation")();
      const cold = () => {
        rmSync(cache, { recursive: true, force: true });
        mkdirSync(cache);
        return open("new conversation")();
      };
      const values = await inTurns(quick ? 7 : 21, {
        frame: open("/quit leaves"),
        ready: open("new conversation"),
        bare,
      });
      const colds = await inTurns(quick ? 3 : 9, { cold, bare });
      const rows = [
        [
          "`rotunda` at a terminal until its first frame, against `node -e 0`",
          median(values.frame),
          median(values.bare),
        ],
        ["`rotunda` at a terminal until the engine is there", median(values.ready), median(values.bare)],
        [
          "`rotunda` at a terminal until the engine is there, without a compile cache",
          median(colds.cold),
          median(colds.bare),
        ],
      ] as const;
      return rows.map(([name, ours, other]) => ({
        name,
        ours,
        bare: other,
        unit: "ms" as const,
        value: ours / other,
        valueUnit: "×" as const,
        goal: 4,
      }));
    } finally {
      place.remove();
    }
  },
};

/** Milliseconds from the start until something stands on the terminal; without a mark, until the end. */
function untilSeen(words: readonly string[], mark: string | undefined, place: Place): Promise<number> {
  return new Promise((resolve, reject) => {
    const command = words.map((word) => `'${word}'`).join(" ");
    const began = sharedNow();
    const child = spawn("script", ["-qefc", `exec ${command}`, "/dev/null"], {
      cwd: place.workspace,
      env: { ...place.environment, TERM: "xterm-256color" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    let seen = "";
    let at: number | undefined;
    child.on("error", reject);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      seen += text;
      if (mark === undefined || at !== undefined || !seen.includes(mark)) return;
      at = sharedNow();
      child.stdin.write("\u0003\u0003");
      setTimeout(() => child.stdin.write("\u0003\u0003"), 50);
    });
    child.on("close", () => {
      if (mark !== undefined && at === undefined) reject(new Error(`the terminal never showed ${mark}:\n${seen}`));
      else resolve((at ?? sharedNow()) - began);
    });
  });
}

/** A terminal that counts what is written to it. */
class Counting implements Terminal {
  written = 0;
  frames = 0;
  readonly kittyProtocolActive = false;
  columns = 120;
  rows = 40;
  type: (data: string) => void = () => undefined;

  start(onInput: (data: string) => void): void {
    this.type = onInput;
  }
  write(data: string): void {
    this.written += data.length;
    this.frames++;
  }
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

function openScreen(): { terminal: Counting; tui: TuiAltScreen; screen: Screen } {
  const terminal = new Counting();
  const tui = new TuiAltScreen(terminal, false);
  const ignore = {
    submit: () => undefined,
    interrupt: () => undefined,
    paste: () => false,
    takeBack: () => undefined,
    readOlder: () => undefined,
  };
  const screen = new Screen(tui, lookFor(true), ignore);
  tui.setLayoutRoot(screen);
  tui.setFocus(screen);
  tui.start();
  return { terminal, tui, screen };
}

const WORDS = "The cart is **empty**, and `cart.js` says so; nothing in it was ever bought by anybody. ";

function* answer(deltas: number): Generator<NewEvent> {
  const place = { output_index: 0, item_id: "msg_1", content_index: 0 };
  for (let index = 0; index < deltas; index++) {
    const delta = index % 40 === 39 ? "\n\n" : `${WORDS.split(" ")[index % 14]} `;
    yield { type: "response.output_text.delta", ...place, delta };
  }
}

export const terminalScreen: Measurement = {
  name: "terminal-screen",
  async run({ quick }) {
    await loadMarkdown();
    return [latency(quick ? 200 : 1_000), ...hour(quick ? 72_000 : 720_000)];
  },
};

/** One key after another, each until its frame is written. */
function latency(keys: number): Row {
  const { terminal, tui, screen } = openScreen();
  for (let item = 0; item < 1_000; item++) {
    screen.transcript.add(new SaidBlock(`Question ${item}: ${WORDS}`));
    const reader = new Reader(screen.transcript);
    for (const event of answer(60)) reader.read({ ...event, sequence_number: reader.after + 1 } as RunEvent);
  }
  tui.renderNow();
  const times: number[] = [];
  for (let key = 0; key < keys; key++) {
    const began = performance.now();
    terminal.type(String.fromCodePoint(97 + (key % 26)));
    tui.renderNow();
    times.push(performance.now() - began);
  }
  tui.stop({ preserveScreen: true });
  const value = times.sort((a, b) => a - b)[Math.floor(keys * 0.99)] ?? 0;
  const name = "a key until its frame, in a conversation of 2,000 items (99th percentile)";
  return {
    name,
    ours: value,
    bare: null,
    unit: "ms",
    value,
    valueUnit: "ms",
    goal: 16,
    note: `median ${median(times).toFixed(2)} ms`,
  };
}

/** 200 tokens a second for an hour, by a simulated clock: every token is read, twenty frames a second are drawn at first. */
function hour(tokens: number): Row[] {
  const { terminal, tui, screen } = openScreen();
  const reader = new Reader(screen.transcript);
  const marks: number[] = [];
  const frames: number[] = [];
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  let count = 0;
  for (const event of answer(tokens)) {
    const began = performance.now();
    reader.read({ ...event, sequence_number: count } as RunEvent);
    count++;
    // Later frames are those of the first minute again: fewer of them show all that grows.
    if (count % (count < 20_000 ? 10 : 200) === 0) {
      tui.renderNow();
      if (count < 20_000) frames.push(performance.now() - began);
    }
    if (count % (tokens / 10) === 0) {
      collect();
      marks.push(process.memoryUsage().heapUsed / 1_048_576);
    }
  }
  tui.stop({ preserveScreen: true });
  const grown = Math.max(0, (marks.at(-1) ?? 0) - (marks[4] ?? 0));
  const value = frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.99)] ?? 0;
  return [
    {
      name: "an hour of 200 tokens/s at the screen: memory that its second half adds",
      ours: grown,
      bare: null,
      unit: "MB",
      value: grown,
      valueUnit: "MB",
      goal: 8,
      note: `${(tokens / 200).toLocaleString("en")} s by a simulated clock`,
    },
    {
      name: "a frame of the screen at 200 tokens/s (99th percentile)",
      ours: value,
      bare: null,
      unit: "ms",
      value,
      valueUnit: "ms",
      goal: 16,
      note: `median ${median(frames).toFixed(1)} ms, ${Math.round(terminal.written / terminal.frames)} characters`,
    },
  ];
}
