/**
 * edit: replaces exact pieces of a text file.
 *
 * Invariant: all edits of a call are made or none; a piece that is missing, or not the only one, changes
 * nothing; the line endings of the file stay; a file that changed since it was read is not overwritten.
 */
import type { JsonObject } from "../types/json.ts";
import type { Tool } from "../types/tool.ts";
import { unifiedDiff } from "../util/diff.ts";
import { openInside, writeInside } from "../util/workspace-path.ts";
import { exclusively } from "./exclusive.ts";
import {
  answering,
  explain,
  failure,
  filledText,
  InputError,
  optionalFlag,
  pathSubject,
  requiredList,
  requiredText,
} from "./input.ts";

const MAX_BYTES = 10 * 1024 * 1024;
/** Characters of a file up to which the change is shown. */
const MAX_SHOWN = 1024 * 1024;

interface Edit {
  old: string;
  fresh: string;
  all: boolean;
}

export const editTool: Tool = {
  name: "edit",
  server: "rotunda",
  serverName: "edit",
  description:
    "Replaces exact pieces of text in a file of the workspace. Each old_string must occur exactly once, unless replace_all is set. Edits are made in order, each on the result of the one before; if one of them fails, the file stays as it was.",
  access: "write",
  confined: true,
  repeatable: false,
  advice:
    "Read the file first and copy old_string from it, with its exact spaces and line breaks. Take just enough surrounding lines to make it unique. Give all changes of one file in one call.",
  input: {
    type: "object",
    properties: {
      file_path: { type: "string", description: "Path of the file, relative to the workspace or absolute." },
      edits: {
        type: "array",
        minItems: 1,
        description: "The replacements, in order.",
        items: {
          type: "object",
          properties: {
            old_string: { type: "string", description: "The text to replace, exactly as it stands in the file." },
            new_string: { type: "string", description: "The text to put there; empty to delete." },
            replace_all: { type: "boolean", description: "Replace every occurrence. Default false." },
          },
          required: ["old_string", "new_string"],
          additionalProperties: false,
        },
      },
    },
    required: ["file_path", "edits"],
    additionalProperties: false,
  },
  subject: async (input, workspace) => {
    return pathSubject(workspace, typeof input.file_path === "string" ? [input.file_path] : []);
  },
  run: answering(async (input, context) => {
    const path = filledText(input, "file_path");
    const edits = parse(input);
    try {
      const { before, after } = await exclusively(context.workspace, path, async () => {
        const file = await readText(context.workspace, path);
        const result = edits.reduce((text, edit, index) => apply(text, edit, index, path), file.before);
        if (result === file.before) throw new InputError("the edits change nothing");
        const { untouchable } = context;
        await writeInside(context.workspace, path, result, { expected: file.stats, untouchable });
        return { before: file.before, after: result };
      });
      const count = edits.length === 1 ? "1 edit" : `${edits.length} edits`;
      const text = `Successfully made ${count} to ${path}`;
      if (Math.max(before.length, after.length) > MAX_SHOWN) return { text };
      return { text, display: { kind: "diff", text: unifiedDiff(path, before, after) } };
    } catch (thrown) {
      return failure(`could not edit ${path}: ${explain(thrown)}`);
    }
  }),
};

function parse(input: JsonObject): Edit[] {
  // Many models have learnt a form with one edit, without the list.
  const single = input.edits === undefined && input.old_string !== undefined;
  const entries = single ? [input] : requiredList(input, "edits", "edit");
  if (entries.length === 0) throw new InputError("edits must hold at least one edit");
  return entries.map((entry, index) => {
    const where = `edit #${index + 1}: `;
    const old = requiredText(entry, "old_string", where);
    const fresh = requiredText(entry, "new_string", where);
    if (old === "") throw new InputError(`${where}old_string cannot be empty; create a file with write`);
    if (old === fresh) throw new InputError(`${where}old_string and new_string are the same`);
    return { old, fresh, all: optionalFlag(entry, "replace_all", where) };
  });
}

async function readText(workspace: string, path: string) {
  const { handle, stats } = await openInside(workspace, path);
  try {
    if (stats.size > MAX_BYTES) throw new InputError(`the file has ${stats.size} bytes, more than can be edited`);
    const bytes = await handle.readFile();
    const before = bytes.toString("utf8");
    if (!Buffer.from(before, "utf8").equals(bytes)) throw new InputError("the file is not UTF-8 text");
    return { before, stats };
  } finally {
    await handle.close();
  }
}

function apply(text: string, edit: Edit, index: number, path: string): string {
  const { old, fresh } = inLineEndingsOf(text, edit);
  const parts = text.split(old);
  const count = parts.length - 1;
  const where = `edit #${index + 1}: `;
  if (count === 0) throw new InputError(`${where}old_string was not found in ${path}${hint(text, edit.old)}`);
  if (count > 1 && !edit.all) {
    throw new InputError(
      `${where}old_string occurs ${count} times in ${path}; add lines around it until it is unique, or set replace_all`,
    );
  }
  if (text.length + count * (fresh.length - old.length) > MAX_BYTES) {
    throw new InputError(`${where}the file would have more than ${MAX_BYTES} characters`);
  }
  return parts.join(fresh);
}

/** Models write "\n"; a file that uses "\r\n" is searched and filled in its own way. */
function inLineEndingsOf(text: string, { old, fresh }: Edit): { old: string; fresh: string } {
  if (!text.includes("\r\n")) return { old, fresh };
  const converted = (piece: string) => piece.replace(/\r?\n/g, "\r\n");
  const onlyReturns = !/(^|[^\r])\n/.test(text);
  if (!onlyReturns && text.includes(old)) return { old, fresh };
  return { old: converted(old), fresh: converted(fresh) };
}

function hint(text: string, old: string): string {
  const loose = (piece: string) => piece.replace(/\s+/g, " ").trim();
  const wanted = loose(old);
  if (wanted !== "" && loose(text).includes(wanted))
    return ": it differs in spaces or line breaks; read the file again";
  return "; read the file and copy the text exactly";
}
