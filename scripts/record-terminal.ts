/**
 * Records the terminal: a real session with the demo model in tmux, its screens as docs/images/terminal*.svg.
 *
 * Invariant: what the pictures show is what the program has drawn, cell for cell; only ids are replaced, so that
 * pictures change when the screen does. Needs a build (`npm run build`) and tmux.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const COLUMNS = 104;
const ROWS = 32;
const socket = `rotunda-record-${process.pid}`;
const program = process.env.ROTUNDA_TEST_BIN ?? join(import.meta.dirname, "..", "bin", "rotunda.js");
const images = join(import.meta.dirname, "..", "docs", "images");

interface Cell {
  text: string;
  /** CSS: colour, weight, … */
  style: string;
}

const COLOURS: Record<number, string> = {
  31: "#ff7b72",
  32: "#7ee787",
  33: "#e3b341",
  34: "#79c0ff",
  35: "#d2a8ff",
  36: "#76e3ea",
  90: "#8b949e",
};
const TEXT = "#e6edf3";
const GROUND = "#0d1117";

function tmux(...words: string[]): string {
  const { status, stdout, stderr } = spawnSync("tmux", ["-L", socket, ...words], { encoding: "utf8" });
  if (status !== 0) throw new Error(`tmux ${words[0]}: ${stderr}`);
  return stdout;
}

const screen = () => tmux("capture-pane", "-p");

async function shows(text: string): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (screen().includes(text)) return;
    await sleep(50);
  }
  throw new Error(`the screen never showed ${text}:\n${screen()}`);
}

async function say(text: string): Promise<void> {
  tmux("send-keys", "-l", text);
  await sleep(150);
  tmux("send-keys", "Enter");
}

/** A folder with a small shop in it, and nothing of this machine's own settings. */
function start(folder: string): void {
  const work = join(folder, "shop");
  for (const path of [join(folder, "home"), join(folder, "state"), join(work, "src")])
    mkdirSync(path, { recursive: true });
  writeFileSync(join(folder, "state", "recorded"), "");
  writeFileSync(join(work, "src", "cart.js"), "// TODO: discounts\nexport const cart = [];\n");
  writeFileSync(join(work, "src", "till.js"), "// TODO: receipts\nexport const till = () => 0;\n");
  const variables = [
    `PATH=${process.env.PATH ?? ""}`,
    `HOME=${join(folder, "home")}`,
    `ROTUNDA_HOME=${join(folder, "state")}`,
    "OLLAMA_HOST=http://127.0.0.1:9",
    "TERM=screen-256color",
    "LANG=C.UTF-8",
  ];
  const words = ["env", "-i", ...variables, process.execPath, program].map((word) => `'${word}'`).join(" ");
  tmux("-f", "/dev/null", "new-session", "-d", "-x", String(COLUMNS), "-y", String(ROWS), "-c", work, words);
}

async function record(): Promise<void> {
  await shows("new conversation");
  await say("Find TODO in src");
  await shows("2 lines in 2 files");
  await shows("· at ");
  await say("write discounts.md with ten percent on apples");
  await shows("asks for permission");
  await sleep(400);
  save("terminal.svg", "Rotunda in a terminal: an answer, and a question before a file is written");
  tmux("send-keys", "y");
  await shows("Successfully wrote");
  await sleep(400);
  await say("/undo");
  await shows("is a branch");
  tmux("send-keys", "C-u");
  await say("read src/till.js");
  await shows("till.js has");
  await sleep(400);
  await say("/tree");
  await shows("The tree");
  tmux("send-keys", "Up");
  await shows("discounts.md");
  await sleep(400);
  save("terminal-tree.svg", "The tree of a conversation in a terminal: two branches, and the answer of one");
}

function save(name: string, title: string): void {
  const id = /(?<=^|[^0-9A-Za-z.;[]|\u001b\[[0-9;]*m)(?=[a-z0-9]*\d)[0-9a-hjkmnp-tv-z]{8}(?![0-9A-Za-z])/gm;
  const lines = tmux("capture-pane", "-p", "-e").replace(id, "4f8kq2mw").trimEnd().split("\n");
  writeFileSync(join(images, name), svgOf(lines.map(cellsOf), title));
  process.stdout.write(`docs/images/${name}\n`);
}

/** Runs of one style, from a line with its colours. */
function cellsOf(line: string): Cell[] {
  const state = { colour: TEXT, bold: false, dim: false, italic: false, underline: false, reverse: false };
  const cells: Cell[] = [];
  for (const part of line.split(/(\u001b\[[0-9;]*m)/)) {
    const codes = /^\u001b\[([0-9;]*)m$/.exec(part)?.[1];
    if (codes === undefined) {
      if (part !== "") cells.push({ text: part, style: styleOf(state) });
      continue;
    }
    for (const code of codes.split(";").map(Number)) {
      if (code === 0)
        Object.assign(state, {
          colour: TEXT,
          bold: false,
          dim: false,
          italic: false,
          underline: false,
          reverse: false,
        });
      else if (code === 1) state.bold = true;
      else if (code === 2) state.dim = true;
      else if (code === 22) Object.assign(state, { bold: false, dim: false });
      else if (code === 3 || code === 23) state.italic = code === 3;
      else if (code === 4 || code === 24) state.underline = code === 4;
      else if (code === 7 || code === 27) state.reverse = code === 7;
      else if (code === 39) state.colour = TEXT;
      else state.colour = COLOURS[code] ?? state.colour;
    }
  }
  return cells;
}

function styleOf(state: {
  colour: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  reverse: boolean;
}): string {
  const parts = [`fill:${state.reverse ? GROUND : state.colour}`];
  if (state.bold) parts.push("font-weight:bold");
  if (state.dim && !state.reverse) parts.push("opacity:.6");
  if (state.italic) parts.push("font-style:italic");
  if (state.underline) parts.push("text-decoration:underline");
  if (state.reverse) parts.push("reverse");
  return parts.join(";");
}

const WIDTH = 8.43;
const HEIGHT = 19;
const EDGE = 16;

function svgOf(lines: readonly Cell[][], title: string): string {
  const width = Math.round(COLUMNS * WIDTH + 2 * EDGE);
  const height = lines.length * HEIGHT + 2 * EDGE + 6;
  const rows = lines.map((cells, row) => {
    let column = 0;
    const y = EDGE + (row + 1) * HEIGHT - 5;
    return cells
      .map(({ text, style }) => {
        const x = EDGE + column * WIDTH;
        const length = [...text].length;
        column += length;
        if (text.trim() === "" && !style.includes("reverse")) return "";
        const size = (length * WIDTH).toFixed(1);
        const box = style.includes("reverse")
          ? `<rect x="${x.toFixed(1)}" y="${y - HEIGHT + 5}" width="${size}" height="${HEIGHT}" fill="${TEXT}"/>`
          : "";
        const shown = `<text x="${x.toFixed(1)}" y="${y}" textLength="${size}" lengthAdjust="spacingAndGlyphs" style="${style.replace(";reverse", "")}">${escaped(text)}</text>`;
        return box + shown;
      })
      .join("");
  });
  const font = "font-family=\"ui-monospace,'SF Mono',Menlo,'DejaVu Sans Mono',monospace\" font-size=\"14\"";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" ${font} xml:space="preserve">
<title>${escaped(title)}</title>
<rect width="100%" height="100%" rx="8" fill="${GROUND}"/>
${rows.filter((row) => row !== "").join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

const folder = mkdtempSync(join(tmpdir(), "rotunda-record-"));
mkdirSync(images, { recursive: true });
try {
  start(folder);
  await record();
} finally {
  spawnSync("tmux", ["-L", socket, "kill-server"]);
  rmSync(folder, { recursive: true, force: true });
}
