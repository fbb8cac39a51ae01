/**
 * What an item says, out of its stored text.
 *
 * Invariant: an item that was cut or damaged gives what can be read of it, and never an error.
 */
import type { FoundItem } from "../types/browsing.ts";
import type { Item } from "../types/item.ts";
import { askedOf } from "../util/asked.ts";
import { oneLine } from "../util/text.ts";

/** Characters of an excerpt, and of one around a hit. */
const EXCERPT = 200;
const AROUND = 240;
/** Characters before the hit. */
const BEFORE = 60;

/** The beginning of a text, from the place of an item's row on at which `"text":"` stands. */
export function excerptOf(snippet: string | null): string | null {
  const line = oneLine(textIn(snippet), EXCERPT);
  return line === "" ? null : line;
}

/** The same of what a person said: without what a door has put before it. */
export function promptOf(snippet: string | null): string | null {
  const line = oneLine(askedOf([textIn(snippet)]), EXCERPT);
  return line === "" ? null : line;
}

function textIn(snippet: string | null): string {
  const [, raw = ""] = /^"text":"((?:[^"\\]|\\.)*)/s.exec(snippet ?? "") ?? [];
  return unescaped(raw);
}

function unescaped(raw: string): string {
  try {
    return JSON.parse(`"${raw}"`) as string;
  } catch {
    // Cut within an escape.
    return raw.replace(/\\u?[0-9a-f]{0,4}$/i, "").replace(/\\(.)/g, (_, letter: string) => ESCAPES[letter] ?? letter);
  }
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "", f: "" };

export interface Said {
  id: string;
  role: FoundItem["role"];
  text: string;
}

/** Undefined: nobody has said it, or nothing is to be read in it. */
export function saidIn(stored: string): Said | undefined {
  let item: Item;
  try {
    item = JSON.parse(stored) as Item;
  } catch {
    return readable(stored);
  }
  switch (item.type) {
    case "message": {
      if (item.role !== "user" && item.role !== "assistant") return undefined;
      const text = item.content.map((part) =>
        "text" in part ? part.text : part.type === "refusal" ? part.refusal : "",
      );
      return { id: item.id, role: item.role, text: text.join("\n") };
    }
    case "reasoning": {
      const text = [...item.summary, ...item.content].map((part) => part.text);
      return { id: item.id, role: "reasoning", text: text.join("\n") };
    }
    case "mcp_call":
      return {
        id: item.id,
        role: "tool",
        text: [item.name, item.arguments, item.output, item.error].filter((part) => part !== null).join("\n"),
      };
    case "function_call":
      return { id: item.id, role: "tool", text: `${item.name}\n${item.arguments}` };
    case "function_call_output":
      return { id: item.id, role: "tool", text: item.output };
    default:
      return undefined;
  }
}

/** Of an item that was too long to be read whole. */
function readable(stored: string): Said | undefined {
  const [, id] = /"id":"([\w-]+)"/.exec(stored) ?? [];
  const [, type = "", role] = /^\{"type":"(\w+)"(?:(?!"content")[^{[])*?(?:"role":"(\w+)"|$|,)/.exec(stored) ?? [];
  if (id === undefined) return undefined;
  const texts = [...stored.matchAll(/"(?:text|output|arguments)":"((?:[^"\\]|\\.)*)/gs)];
  const text = texts.map(([, raw = ""]) => unescaped(raw)).join("\n");
  if (type !== "message") return { id, role: type === "reasoning" ? "reasoning" : "tool", text };
  return { id, role: role === "assistant" ? "assistant" : "user", text };
}

/** Where all words stand in a text: one line around the first of them. Words are in small letters. */
export function hitIn(text: string, words: readonly string[]): string | undefined {
  const lower = text.toLowerCase();
  if (!words.every((word) => lower.includes(word))) return undefined;
  const at = lower.indexOf(words[0] ?? "");
  const start = Math.max(0, at - BEFORE);
  const line = oneLine(text.slice(start, start + 2 * AROUND), AROUND);
  return start > 0 ? `…${line}` : line;
}
