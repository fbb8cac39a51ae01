/**
 * Outputs: texts of results that were too long to be handed on at once, to be read back in pieces.
 *
 * Invariant: bounded in size and time, and held in memory alone; an output is read by the owner of its call only.
 */
import { randomBytes } from "node:crypto";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import { READ_OUTPUT } from "./gateway-tools.ts";

/** Characters of all of them. */
const MOST = 64_000_000;
/** Milliseconds. */
const KEPT = 60 * 60_000;

interface Output {
  owner: string;
  text: string;
  until: number;
}

export class Outputs {
  readonly #held = new Map<string, Output>();
  #size = 0;

  /** The same result, its text cut to `limit` characters. */
  cut(result: JsonObject, limit: number, owner: string): JsonObject {
    const { content } = result;
    if (!Array.isArray(content)) return result;
    let size = 0;
    for (const block of content) if (isJsonObject(block)) size += textOf(block).length;
    if (size <= limit) return result;
    const whole = content.map((block) => (isJsonObject(block) ? textOf(block) : "")).filter((text) => text !== "");
    const reference = this.#hold(whole.join("\n"), owner);
    let left = limit;
    const cut = content.flatMap((block) => {
      const text = isJsonObject(block) ? textOf(block) : "";
      if (text === "" || !isJsonObject(block)) return [block];
      const shown = text.slice(0, left);
      left -= shown.length;
      if (shown.length === text.length) return [block];
      return shown === "" ? [] : [{ type: "text", text: shown }];
    });
    const note = `[The result has ${size} characters, the first ${limit} are above. Read on with ${READ_OUTPUT}: {"reference": "${reference}", "from": ${limit}}]`;
    return { ...result, content: [...cut, { type: "text", text: note }] };
  }

  #hold(text: string, owner: string): string {
    const now = Date.now();
    for (const [reference, output] of this.#held) {
      if (output.until > now && this.#size + text.length <= MOST) break;
      this.#held.delete(reference);
      this.#size -= output.text.length;
    }
    const reference = randomBytes(9).toString("base64url");
    this.#held.set(reference, { owner, text, until: now + KEPT });
    this.#size += text.length;
    return reference;
  }

  /** Undefined where there is none of this owner. */
  read({ reference, from, pattern }: JsonObject, limit: number, owner: string): string | undefined {
    const output = this.#held.get(String(reference));
    if (!output || output.owner !== owner || output.until <= Date.now()) return undefined;
    const wanted = typeof pattern === "string" ? pattern.toLowerCase() : "";
    const lines = () => output.text.split("\n").filter((line) => line.toLowerCase().includes(wanted));
    const text = wanted === "" ? output.text : lines().join("\n");
    const start = typeof from === "number" && from > 0 ? Math.floor(from) : 0;
    const piece = text.slice(start, start + limit);
    const end = start + piece.length;
    const rest = end < text.length ? `\n[${text.length - end} characters more, from ${end}]` : "";
    return `${piece === "" ? "(nothing)" : piece}${rest}`;
  }
}

/** Of a text, or of a resource that is one. */
function textOf(block: JsonObject): string {
  if (block.type === "text") return typeof block.text === "string" ? block.text : "";
  const { resource } = block;
  return block.type === "resource" && isJsonObject(resource) && typeof resource.text === "string" ? resource.text : "";
}
