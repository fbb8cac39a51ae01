/**
 * read: up to eight files of the workspace in one call, text whole or by lines, and images.
 *
 * Invariant: only regular files inside the workspace are read, each at most `MAX_BYTES` at a time; a file that
 * cannot be read does not spoil the others.
 */
import type { FileHandle } from "node:fs/promises";
import type { InputImage } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import type { Tool, ToolContext } from "../types/tool.ts";
import { imageKind, imageOf, MAX_IMAGE_BYTES } from "../util/images.ts";
import { matchesPath } from "../util/path-pattern.ts";
import { openInside, resolveInWorkspace } from "../util/workspace-path.ts";
import {
  answering,
  explain,
  failure,
  filledText,
  InputError,
  optionalInteger,
  pathSubject,
  requiredList,
} from "./input.ts";

const MAX_FILES = 8;
const MAX_BYTES = 10 * 1024 * 1024;

interface Wanted {
  path: string;
  from?: number | undefined;
  to?: number | undefined;
}

/** A part of a file. `lines` is of the whole file, as far as it was read. */
interface Part {
  text: string;
  /** Absent: the file was not asked for by lines. */
  range?: { first: number; last: number; count: number };
  image?: InputImage;
}

export const readTool: Tool = {
  name: "read",
  server: "rotunda",
  serverName: "read",
  description:
    "Reads text files and images (PNG, JPEG, GIF, WebP) of the workspace: up to 8 in one call, text whole or by lines. Line numbers begin at 1; `from` alone reads to the end, `to` alone from the beginning.",
  access: "read",
  confined: true,
  repeatable: true,
  parallel: true,
  advice:
    "Read a file before you change it. Ask for related files in one call instead of one after another. For a long file, find the place with grep first and read only the lines around it.",
  input: {
    type: "object",
    properties: {
      files: {
        type: "array",
        minItems: 1,
        maxItems: MAX_FILES,
        description: "The files to read, in the order of the answer.",
        items: {
          type: "object",
          properties: {
            file_path: { type: "string", description: "Path of the file, relative to the workspace or absolute." },
            from: { type: "integer", minimum: 1, description: "First line to read." },
            to: { type: "integer", minimum: 1, description: "Last line to read." },
          },
          required: ["file_path"],
          additionalProperties: false,
        },
      },
    },
    required: ["files"],
    additionalProperties: false,
  },
  subject: async (input, workspace) => {
    const { files: given } = asList(input);
    const files = Array.isArray(given) ? given : [];
    const paths = files
      .map((file) => (file as JsonObject | null)?.file_path)
      .filter((path) => typeof path === "string");
    return pathSubject(workspace, paths);
  },
  run: answering(async (input, context) => {
    const files = requiredList(asList(input), "files", "file");
    if (files.length === 0) throw new InputError("files must name at least one file");
    if (files.length > MAX_FILES) {
      throw new InputError(`too many files requested (max ${MAX_FILES}, got ${files.length})`);
    }
    const { real: root } = await resolveInWorkspace(context.workspace, ".");
    const sections = await Promise.all(files.map((file, index) => readOne(file, index, root, context)));
    const [only] = sections;
    if (sections.length === 1 && only) {
      if (only.error !== undefined) return failure(only.error);
      const title = only.range === undefined ? "" : `File: ${only.path} ${only.range}\n`;
      return { text: title + only.text, ...(only.image && { images: [only.image] }) };
    }
    const blocks = sections.map((section, index) => {
      const range = section.range === undefined ? "" : ` ${section.range}`;
      return `=== File ${index + 1}/${sections.length}: ${section.path}${range} ===\n${section.error ?? section.text}`;
    });
    const text = blocks.map((block) => (block.endsWith("\n") ? block : `${block}\n`)).join("\n");
    const images = sections.flatMap(({ image }) => image ?? []);
    if (sections.every(({ error }) => error !== undefined)) return failure(text);
    return { text, ...(images.length > 0 && { images }) };
  }),
};

/** Models that know other programs' tools name one file without a list. */
function asList({ files, file_path, from, to }: JsonObject): JsonObject {
  if (files !== undefined || typeof file_path !== "string") return files === undefined ? {} : { files };
  return { files: [{ file_path, ...(from !== undefined && { from }), ...(to !== undefined && { to }) }] };
}

interface Section {
  path: string;
  text: string;
  range?: string;
  error?: string;
  image?: InputImage;
}

async function readOne(
  file: JsonObject,
  index: number,
  workspace: string,
  { hiddenPaths: hidden = [], signal }: Pick<ToolContext, "hiddenPaths" | "signal">,
): Promise<Section> {
  const named = typeof file.file_path === "string" ? file.file_path : "";
  try {
    const wanted = parse(file);
    const { handle, real, stats } = await openInside(workspace, wanted.path);
    try {
      if (hidden.some((pattern) => matchesPath(pattern, real, workspace)))
        throw new InputError("a rule forbids to read it");
      const part = await readPart(handle, stats.size, wanted, signal);
      const { image } = part;
      if (!part.range) return { path: wanted.path, text: part.text, ...(image && { image }) };
      const { first, last, count } = part.range;
      return { path: wanted.path, text: part.text, range: `(lines ${first}-${last}, returned ${count} lines)` };
    } finally {
      await handle.close();
    }
  } catch (thrown) {
    return { path: named, text: "", error: `file #${index + 1} (${named}): ${explain(thrown)}` };
  }
}

function parse(file: JsonObject): Wanted {
  const path = filledText(file, "file_path");
  const from = optionalInteger(file, "from", 1);
  const to = optionalInteger(file, "to", 1);
  if (from !== undefined && to !== undefined && from > to) {
    throw new InputError(`invalid line range: from (${from}) > to (${to})`);
  }
  return { path, from, to };
}

async function readPart(handle: FileHandle, size: number, { from, to }: Wanted, signal: AbortSignal): Promise<Part> {
  if (from !== undefined || to !== undefined) {
    return readLines(handle, from ?? 1, to ?? Number.POSITIVE_INFINITY, signal);
  }
  if (size > MAX_BYTES) {
    throw new InputError(`the file has ${size} bytes; read a part of it with from and to, or search it with grep`);
  }
  const bytes = await handle.readFile();
  const kind = imageKind(bytes);
  const image = kind && imageOf(kind, bytes.toString("base64"));
  if (image) return { text: `[Image: ${kind}, ${bytes.length} bytes]`, image };
  if (kind) throw new InputError(`is an image of ${bytes.length} bytes; models take at most ${MAX_IMAGE_BYTES}`);
  refuseBinary(bytes);
  const text = bytes.toString("utf8");
  return { text: text === "" ? "(the file is empty)" : text };
}

const CHUNK = 256 * 1024;

/** Reads only as far as needed and keeps only what was asked for. */
async function readLines(handle: FileHandle, first: number, last: number, signal: AbortSignal): Promise<Part> {
  const pieces: Buffer[] = [];
  let kept = 0;
  let line = 1;
  let position = 0;
  let atStart = true;
  const buffer = Buffer.allocUnsafe(CHUNK);
  while (line <= last) {
    // A file with holes can be larger than anybody reads in a day.
    if (signal.aborted) throw new InputError("the call was cancelled");
    const { bytesRead } = await handle.read(buffer, 0, CHUNK, position);
    if (bytesRead === 0) break;
    if (position === 0) refuseBinary(buffer.subarray(0, bytesRead));
    position += bytesRead;
    let start = 0;
    while (start < bytesRead && line <= last) {
      const end = buffer.subarray(0, bytesRead).indexOf(10, start);
      const stop = end < 0 ? bytesRead : end + 1;
      if (line >= first) {
        kept += stop - start;
        if (kept > MAX_BYTES) throw new InputError(`these lines have more than ${MAX_BYTES} bytes; ask for fewer`);
        pieces.push(Buffer.from(buffer.subarray(start, stop)));
      }
      atStart = end >= 0;
      if (end >= 0) line++;
      start = stop;
    }
  }
  const lines = atStart ? line - 1 : line;
  if (lines < first) throw new InputError(`no lines in specified range (file has ${lines} lines)`);
  const text = Buffer.concat(pieces)
    .toString("utf8")
    .replace(/\r?\n$/, "");
  const end = Math.min(last, lines);
  return { text, range: { first, last: end, count: end - first + 1 } };
}

function refuseBinary(bytes: Buffer): void {
  if (bytes.subarray(0, 8192).includes(0)) throw new InputError("is a binary file");
}
