/**
 * write: creates a file or replaces it as a whole, in one step.
 *
 * Invariant: nothing outside the workspace and none of the files that steer Rotunda, git or a shell is written.
 */
import type { Tool } from "../types/tool.ts";
import { unifiedDiff } from "../util/diff.ts";
import { openInside, writeInside } from "../util/workspace-path.ts";
import { exclusively } from "./exclusive.ts";
import { answering, explain, failure, filledText, pathSubject, requiredText } from "./input.ts";

/** Bytes of a file, and characters of its new content, up to which the change is shown. */
const MAX_SHOWN = 1024 * 1024;

export const writeTool: Tool = {
  name: "write",
  server: "rotunda",
  serverName: "write",
  description:
    "Creates a file of the workspace with the given content, or replaces it as a whole. Missing folders are made.",
  access: "write",
  confined: true,
  repeatable: false,
  advice:
    "Use write for new files and for complete rewrites; change a part of a file with edit. Read an existing file before you replace it, and give the whole content: nothing of the old one stays.",
  input: {
    type: "object",
    properties: {
      file_path: { type: "string", description: "Path of the file, relative to the workspace or absolute." },
      content: { type: "string", description: "The whole new content." },
    },
    required: ["file_path", "content"],
    additionalProperties: false,
  },
  subject: async (input, workspace) => {
    return pathSubject(workspace, typeof input.file_path === "string" ? [input.file_path] : []);
  },
  run: answering(async (input, context) => {
    const path = filledText(input, "file_path");
    const content = requiredText(input, "content");
    let before: string | undefined;
    try {
      await exclusively(context.workspace, path, async () => {
        before = await oldText(context.workspace, path);
        await writeInside(context.workspace, path, content, { untouchable: context.untouchable });
      });
    } catch (thrown) {
      return failure(`could not write ${path}: ${explain(thrown)}`);
    }
    const text = `Successfully wrote ${Buffer.byteLength(content)} bytes to ${path}`;
    const shown = before !== undefined && content.length <= MAX_SHOWN;
    const diff = shown ? unifiedDiff(path, before ?? "", content) : "";
    return diff === "" ? { text } : { text, display: { kind: "diff", text: diff } };
  }),
};

/** What the file held; empty when there was none, undefined when it is not text of a fair size. */
async function oldText(workspace: string, path: string): Promise<string | undefined> {
  try {
    const { handle, stats } = await openInside(workspace, path);
    try {
      if (stats.size > MAX_SHOWN) return undefined;
      const bytes = await handle.readFile();
      return bytes.includes(0) ? undefined : bytes.toString("utf8");
    } finally {
      await handle.close();
    }
  } catch (thrown) {
    return explain(thrown) === "no such file or directory" ? "" : undefined;
  }
}
