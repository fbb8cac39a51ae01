/**
 * Content parts as text.
 *
 * Invariant: what is no text is named in brackets, never left out without a word; a file whose bytes are text is text.
 */
import { isUtf8 } from "node:buffer";
import type { ContentPart, InputFile } from "../types/item.ts";

/** What a person, or a model that takes nothing else, is shown of a part. Of a file: its name. */
export function textOfPart(part: ContentPart): string {
  if (part.type === "input_image") return "[image]";
  if (part.type === "input_file") return `[file: ${nameOf(part)}]`;
  return part.type === "refusal" ? part.refusal : part.text;
}

/** What stands before the images and files of tool results, which no dialect takes beside their text. */
export const BESIDE = "Images and files of the tool results above, in their order:";

/** Of a file that is text, as a model is told of it; undefined: it is none. */
export function textOfFile(file: InputFile): string | undefined {
  const bytes = bytesOf(file);
  if (!isUtf8(bytes) || bytes.includes(0)) return undefined;
  return `<file name="${nameOf(file)}">\n${bytes.toString("utf8").replace(END, "<\\/file")}\n</file>`;
}

/** Of a frame, as a model may still read it. */
const END = /<\s*\/\s*file/gi;

/** What would end a line or a frame, or is not to be seen, is no part of a name. */
function nameOf({ filename }: InputFile): string {
  return (filename ?? "unnamed").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}<>"]/gu, "_");
}

function bytesOf({ file_data }: InputFile): Buffer {
  return Buffer.from(file_data.slice(file_data.indexOf(",") + 1), "base64");
}
