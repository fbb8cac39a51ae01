/**
 * Images that a person gives along: of the clipboard or of a file, as data URLs.
 *
 * Invariant: only what is an image by its first bytes is taken, and none above the limit; one is sent as long as its
 * marker stands in the text.
 */
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, resolve } from "node:path";
import { clean } from "./clean.ts";

export interface Attachment {
  name: string;
  /** A `data:` URL. */
  url: string;
}

const LARGEST = 20_000_000;

const KINDS: readonly (readonly [string, readonly number[]])[] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

/** A path as terminals paste it when a file is dropped: quoted, with escaped blanks, or as an address. */
export function pastedPath(text: string): string | undefined {
  const line = text.trim();
  if (line.includes("\n") || line.length > 4_000) return undefined;
  const bare = line
    .replace(/^file:\/\/(?:localhost)?/, "")
    .replace(/^(['"])(.*)\1$/, "$2")
    .replaceAll(/\\(.)/g, "$1");
  return /\.(?:png|jpe?g|gif|webp)$/i.test(bare) ? bare : undefined;
}

export class Images {
  readonly #all: Attachment[] = [];

  /** Those whose markers stand in a text. */
  in(text: string): Attachment[] {
    return this.#all.filter(({ name }, index) => text.includes(markerOf(index, name)));
  }

  /** Resolves with its marker. Undefined: there is no image there. */
  async fromFile(path: string, workspace: string): Promise<string | undefined> {
    const file = resolve(workspace, path.replace(/^~(?=\/)/, homedir()));
    try {
      const { size } = await stat(file);
      return size > LARGEST ? undefined : this.#add(basename(file), await readFile(file));
    } catch {
      return undefined;
    }
  }

  /** Resolves with its marker, or says why there is none. */
  async fromClipboard(): Promise<{ marker: string } | { why: string }> {
    const { clipboardImage } = await import("./clipboard.ts");
    const found = await clipboardImage();
    if (typeof found === "string") return { why: found };
    if (found.length > LARGEST) return { why: "The image in the clipboard is larger than 20 MB." };
    const marker = this.#add("pasted", found);
    return marker === undefined ? { why: "What is in the clipboard is no image." } : { marker };
  }

  #add(name: string, bytes: Buffer): string | undefined {
    const kind = KINDS.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte))?.[0];
    if (kind === undefined) return undefined;
    this.#all.push({ name, url: `data:${kind};base64,${bytes.toString("base64")}` });
    return markerOf(this.#all.length - 1, name);
  }
}

function markerOf(index: number, name: string): string {
  return `[image #${index + 1}: ${clean(name)}]`;
}
