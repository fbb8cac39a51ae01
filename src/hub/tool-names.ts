/**
 * Names: server and tool → the one name that models see, and back.
 *
 * Invariant: every pair has exactly one name, of `^[A-Za-z0-9_-]{1,64}$`, and no two pairs share it. A plain
 * name is `server__tool` and splits at its first `__`; a pair for which that would not hold gets a name that
 * ends in `_` and twelve hex digits of its hash, an ending that no plain name may have.
 */
import { createHash } from "node:crypto";

const MAX_NAME_LENGTH = 64;

const SEPARATOR = "__";
const ALLOWED = /^[A-Za-z0-9_-]{1,64}$/;
const HASH_LENGTH = 12;
const HASHED_ENDING = /_[0-9a-f]{12}$/;
const SERVER_PART = 20;

/** The model-facing name of a server's tool. Total: any two strings have one. */
export function toolName(server: string, tool: string): string {
  const plain = `${server}${SEPARATOR}${tool}`;
  if (splitsBack(server, tool) && ALLOWED.test(plain) && !HASHED_ENDING.test(plain)) return plain;
  // JSON keeps lone surrogates apart, which UTF-8 would all turn into the same character.
  const hash = createHash("sha256")
    .update(JSON.stringify([server, tool]))
    .digest("hex")
    .slice(0, HASH_LENGTH);
  const readable = `${clean(server).slice(0, SERVER_PART)}${SEPARATOR}${clean(tool)}`;
  return `${readable.slice(0, MAX_NAME_LENGTH - HASH_LENGTH - 1)}_${hash}`;
}

/** The pair behind a plain name; undefined for a hashed or foreign one, which only a `NameIndex` can resolve. */
export function parseToolName(name: string): { server: string; tool: string } | undefined {
  if (!ALLOWED.test(name) || HASHED_ENDING.test(name)) return undefined;
  const at = name.indexOf(SEPARATOR);
  if (at < 1) return undefined;
  const server = name.slice(0, at);
  const tool = name.slice(at + SEPARATOR.length);
  return splitsBack(server, tool) ? { server, tool } : undefined;
}

/** Whether a tool of the server could be meant by the name, in any of its spellings. */
export function mayMean(name: string, server: string): boolean {
  const begins = [SEPARATOR, ":", "_"].some((joint) => name.startsWith(`${server}${joint}`));
  return begins || name.startsWith(`${clean(server).slice(0, SERVER_PART)}${SEPARATOR}`);
}

/** Whether the first `__` of `server__tool` is the one between them. */
function splitsBack(server: string, tool: string): boolean {
  return server !== "" && tool !== "" && !server.includes(SEPARATOR) && !server.endsWith("_");
}

function clean(part: string): string {
  const cleaned = part.replace(/[^A-Za-z0-9-]+/g, "_").replace(/^_+|_+$/g, "");
  return cleaned === "" ? "x" : cleaned;
}

interface Named {
  readonly name: string;
  readonly server: string;
  readonly serverName: string;
}

/**
 * Finds tools by what a model or a person wrote: the exact name, then `server__tool`, `server:tool` and
 * `server_tool` over the server's own names. A spelling that fits two tools finds neither.
 */
export class NameIndex<T extends Named> {
  readonly #exact = new Map<string, T>();
  readonly #spellings: Map<string, T | null>[] = [new Map(), new Map(), new Map()];

  constructor(tools: Iterable<T>) {
    const joints = [SEPARATOR, ":", "_"];
    for (const tool of tools) {
      this.#exact.set(tool.name, tool);
      this.#spellings.forEach((spellings, at) => {
        const spelled = `${tool.server}${joints[at]}${tool.serverName}`;
        spellings.set(spelled, spellings.has(spelled) ? null : tool);
      });
    }
  }

  find(name: string): T | undefined {
    const exact = this.#exact.get(name);
    if (exact) return exact;
    for (const spellings of this.#spellings) {
      const found = spellings.get(name);
      if (found !== undefined) return found ?? undefined;
    }
    return undefined;
  }
}
