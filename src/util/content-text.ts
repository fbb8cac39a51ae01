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

/** Of a file that is text, as a model is told of it; undefined: it is none. */
export function textOfFile(file: InputFile): string | undefined {
  const bytes = bytesOf(file);
  if (!isUtf8(bytes) || bytes.includes(0)) return undefined;
  const name = JSON.stringify(nameOf(file));
  return `<file name=${name}>\n${bytes.toString("utf8").replaceAll("</file>", "<\\/file>")}\n</file>`;
}

function nameOf({ filename }: InputFile): string {
  return filename ?? "unnamed";
}

function bytesOf({ file_data }: InputFile): Buffer {
  return Buffer.from(file_data.slice(file_data.indexOf(",") + 1), "base64");
}
