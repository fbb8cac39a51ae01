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
// biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what it is about
const COLOUR = /(\u001b\[[0-9;]*m)/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what it is about
const ID = /(?<=^|[^0-9A-Za-z.;[]|\u001b\[[0-9;]*m)(?=[a-z0-9]*\d)[0-9a-hjkmnp-tv-z]{8}(?![0-9A-Za-z])/gm;

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
  writeFileSync(join(folder, "rotunda.yaml"), "permissions: {mode: ask}\n");
  writeFileSync(join(work, "src", "cart.js"), "// TODO: discounts\nexport const cart = [];\n");
  writeFileSync(join(work, "src", "till.js"), "// TODO: receipts\nexport const till = () => 0;\n");
  const variables = [
    `PATH=${process.env.PATH ?? ""}`,
    `HOME=${folder}`,
    `ROTUNDA_HOME=${join(folder, "state")}`,
    `ROTUNDA_CONFIG=${join(folder, "rotunda.yaml")}`,
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
  const lines = tmux("capture-pane", "-p", "-e").replace(ID, "4f8kq2mw").trimEnd().split("\n");
  writeFileSync(join(images, name), svgOf(cellsOf(lines), title));
  process.stdout.write(`docs/images/${name}\n`);
}

const plain = { colour: TEXT, bold: false, dim: false, italic: false, underline: false, reverse: false };

/** Runs of one style, line by line; what one line leaves on holds for the next. */
function cellsOf(lines: readonly string[]): Cell[][] {
  const state = { ...plain };
  return lines.map((line) => {
    const cells: Cell[] = [];
    for (const part of line.split(COLOUR)) {
      if (part.startsWith("\u001b[")) for (const code of part.slice(2, -1).split(";")) change(state, Number(code));
      else if (part !== "") cells.push({ text: part, style: styleOf(state) });
    }
    return cells;
  });
}

function change(state: typeof plain, code: number): void {
  if (code === 0) Object.assign(state, plain);
  else if (code === 1) state.bold = true;
  else if (code === 2) state.dim = true;
  else if (code === 22) Object.assign(state, { bold: false, dim: false });
  else if (code === 3 || code === 23) state.italic = code === 3;
  else if (code === 4 || code === 24) state.underline = code === 4;
  else if (code === 7 || code === 27) state.reverse = code === 7;
  else if (code === 39) state.colour = TEXT;
  else state.colour = COLOURS[code] ?? state.colour;
}

function styleOf(state: typeof plain): string {
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
    return cells
      .map(({ text, style }) => {
        const start = column;
        column += [...text].length;
        return run(text, style, start, row);
      })
      .join("");
  });
  const font = "font-family=\"ui-monospace,'SF Mono',Menlo,'DejaVu Sans Mono',monospace\" font-size=\"14\"";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" ${font}>
<title>${escaped(title)}</title>
<rect width="100%" height="100%" rx="8" fill="${GROUND}"/>
${rows.filter((row) => row !== "").join("\n")}
</svg>
`;
}

/** A run of one style. Blanks at its ends are left to the columns: a picture would fold them. */
function run(text: string, style: string, start: number, row: number): string {
  const shown = text.trim();
  const y = EDGE + (row + 1) * HEIGHT - 5;
  const reverse = style.includes("reverse");
  const boxWidth = ([...text].length * WIDTH).toFixed(1);
  const boxStart = (EDGE + start * WIDTH).toFixed(1);
  const box = `<rect x="${boxStart}" y="${y - HEIGHT + 5}" width="${boxWidth}" height="${HEIGHT}" fill="${TEXT}"/>`;
  if (shown === "") return reverse ? box : "";
  const x = (EDGE + (start + text.length - text.trimStart().length) * WIDTH).toFixed(1);
  const size = ([...shown].length * WIDTH).toFixed(1);
  const attributes = `x="${x}" y="${y}" textLength="${size}" lengthAdjust="spacingAndGlyphs"`;
  const paint = style.replace(";reverse", "");
  return `${reverse ? box : ""}<text ${attributes} style="${paint}">${escaped(shown.replaceAll("  ", " \u00a0"))}</text>`;
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
