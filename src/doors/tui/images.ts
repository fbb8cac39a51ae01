/**
 * Images that a person gives along: files of the clipboard or of a path, as data URLs.
 *
 * Invariant: only a file that is an image by its first bytes is read, and none above the limit.
 */
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, resolve } from "node:path";

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

/** Undefined: there is no image there. */
export async function readImage(path: string, workspace: string): Promise<Attachment | undefined> {
  const file = resolve(workspace, path.replace(/^~(?=\/)/, homedir()));
  try {
    const { size } = await stat(file);
    if (size > LARGEST) return undefined;
    const bytes = await readFile(file);
    const kind = KINDS.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte))?.[0];
    if (kind === undefined) return undefined;
    return { name: basename(file), url: `data:${kind};base64,${bytes.toString("base64")}` };
  } catch {
    return undefined;
  }
}
