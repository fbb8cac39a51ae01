/**
 * Files that go with a message: pictures and texts.
 *
 * Invariant: nothing that the server would refuse for its size is read into memory; what cannot be sent is said so.
 */

import { fileIn } from "../util/asked.ts";
import { session } from "./api.ts";
import type { Part, WireItem } from "./wire.ts";

export interface Attachment {
  key: number;
  name: string;
  /** Bytes. */
  size: number;
  part: Part;
}

const PICTURE = /^image\/(?:png|jpeg|gif|webp)$/;
const LARGEST_TEXT = 1_000_000;
const LARGEST_PICTURE = 8_000_000;
let number = 0;

/** Throws an error whose message is for the person. */
export async function attach(file: File): Promise<Attachment> {
  const limit = Math.min(LARGEST_PICTURE, (session.value?.body_limit ?? 50_000_000) * 0.6);
  const base = { key: ++number, name: file.name, size: file.size };
  if (PICTURE.test(file.type)) {
    if (file.size > limit) throw new Error(`${file.name} is too large: ${megabytes(limit)} at most.`);
    return { ...base, part: { type: "input_image", image_url: await dataUrl(file) } };
  }
  if (file.size > LARGEST_TEXT)
    throw new Error(`${file.name} is too large: a text of ${megabytes(LARGEST_TEXT)} at most.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name} is neither a picture (PNG, JPEG, GIF, WebP) nor a text.`);
  }
  if (text.includes("\0")) throw new Error(`${file.name} is not a text.`);
  return { ...base, part: { type: "input_text", text: `File ${file.name}:\n\n${fenced(text)}` } };
}

/** What was attached to a message that was sent. Undefined: the part is what a person wrote. */
function attachmentOf(part: Part): Attachment | undefined {
  const data = part.image_url ?? part.file_data;
  if (data !== undefined) {
    const { length } = data.slice(data.indexOf(",") + 1);
    const name = part.filename ?? (part.image_url === undefined ? "file" : "picture");
    return { key: ++number, name, size: Math.floor((length * 3) / 4), part };
  }
  const file = fileIn(part.text ?? "");
  return file && { key: ++number, name: file.name, size: new Blob([file.text]).size, part };
}

/** A message of a person as it was written: its text, and what was attached. */
export function writtenOf(items: readonly WireItem[]): { text: string; attachments: Attachment[] } {
  const parts = items.flatMap(({ type, role, content = [] }) => (type === "message" && role === "user" ? content : []));
  const texts = parts.filter(({ text = "" }) => !fileIn(text));
  return {
    text: texts
      .map(({ text = "" }) => text)
      .filter((text) => text !== "")
      .join("\n\n"),
    attachments: parts.flatMap((part) => attachmentOf(part) ?? []),
  };
}

/** A fence that the text cannot close. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([fence]) => fence.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(0)} MB`;
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsDataURL(file);
  });
}
