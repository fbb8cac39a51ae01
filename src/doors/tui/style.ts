/**
 * How the terminal looks: colours by what they mean, from the terminal's own palette.
 *
 * Invariant: every style ends what it began, so that no colour runs over into what follows; without colours
 * nothing but bold, dim and reverse is left, and the marks alone tell things apart.
 */
import type { EditorTheme, MarkdownTheme, SelectListTheme } from "@earendil-works/pi-tui";

type Paint = (text: string) => string;

export interface Look {
  bold: Paint;
  dim: Paint;
  italic: Paint;
  underline: Paint;
  strike: Paint;
  reverse: Paint;
  red: Paint;
  /** Answers, and what went well. */
  green: Paint;
  /** Reasoning, and what waits for a person. */
  yellow: Paint;
  /** Tools. */
  cyan: Paint;
  /** What the person said. */
  blue: Paint;
  /** Sub-agents. */
  magenta: Paint;
  /** What a screen that has few signs shows in place of ours; columns stay. */
  signs: Paint;
}

const code =
  (open: number, close: number): Paint =>
  (text) =>
    `\u001b[${open}m${text}\u001b[${close}m`;

const plain: Paint = (text) => text;

/** Signs that the console of Linux has in its own font, for those that it has not. */
const CONSOLE: Record<string, string> = {
  ...{ "❯": ">", "●": "*", "∴": "~", "↪": "»", "✓": "√", "✗": "x", "⊘": "!", "▸": ">", "○": "o", "◌": "o" },
  ...{ "◆": "#", "╭": "┌", "╰": "└", "╴": "─", "⋯": ":", "…": ".", "−": "-", "–": "-", "▏": "|", "␡": "?" },
  ...{ "⠋": "|", "⠙": "/", "⠹": "-", "⠸": "\\", "⠼": "|", "⠴": "/", "⠦": "-", "⠧": "\\", "⠇": "|", "⠏": "/" },
};
const RICH = new RegExp(`[${Object.keys(CONSOLE).join("")}]`, "gu");

/** `few`: the terminal has few signs, as the console of Linux. */
export function lookFor(colour: boolean, few = false): Look {
  const paint = (open: number): Paint => (colour ? code(open, 39) : plain);
  return {
    bold: code(1, 22),
    dim: code(2, 22),
    italic: code(3, 23),
    underline: code(4, 24),
    strike: code(9, 29),
    reverse: code(7, 27),
    red: paint(31),
    green: paint(32),
    yellow: paint(33),
    blue: paint(34),
    magenta: paint(35),
    cyan: paint(36),
    signs: few ? (text) => text.replace(RICH, (sign) => CONSOLE[sign] ?? sign) : plain,
  };
}

export function markdownTheme(look: Look): MarkdownTheme {
  return {
    heading: (text) => look.bold(text),
    link: look.underline,
    linkUrl: look.dim,
    code: look.cyan,
    codeBlock: (text) => text,
    codeBlockBorder: look.dim,
    quote: look.italic,
    quoteBorder: look.dim,
    hr: look.dim,
    listBullet: look.cyan,
    bold: look.bold,
    italic: look.italic,
    strikethrough: look.strike,
    underline: look.underline,
    codeBlockIndent: "  ",
  };
}

export function listTheme(look: Look): SelectListTheme {
  return {
    selectedPrefix: look.cyan,
    selectedText: look.cyan,
    description: look.dim,
    scrollInfo: look.dim,
    noMatch: look.dim,
  };
}

export function editorTheme(look: Look): EditorTheme {
  return { borderColor: look.dim, selectList: listTheme(look) };
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** The frame of a spinner at a moment in milliseconds. */
export function spinner(now: number): string {
  return FRAMES[Math.floor(now / 100) % FRAMES.length] ?? "·";
}

/** "0.4s", "12s", "3m 05s". */
export function durationText(milliseconds: number): string {
  const seconds = milliseconds / 1_000;
  if (seconds < 1) return `${Math.round(milliseconds)}ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, "0")}s`;
}

/** "812", "12.3k", "1.2M". */
export function countText(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** "$0.0123"; empty where nothing is known to have been paid. */
export function costText(cost: number | undefined): string {
  return cost === undefined || cost === 0 ? "" : `$${Number(cost.toPrecision(3))}`;
}
