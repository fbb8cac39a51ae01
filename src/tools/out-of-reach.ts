/**
 * Out of reach: file tools that keep away from Rotunda's own files, where a workspace (a home directory) holds them.
 *
 * Invariant: what lies in one of the folders is neither read nor written by a tool of a model: the local token that
 * lies there may do everything.
 */
import { realpath } from "node:fs/promises";
import type { JsonObject } from "../types/json.ts";
import type { Tool, ToolContext } from "../types/tool.ts";
import { literal } from "../util/path-pattern.ts";
import { isWithin } from "../util/workspace-path.ts";
import { failure } from "./input.ts";

/** A tool whose `subject` names its paths, kept out of these folders (absolute; they need not exist). */
export function outOfReach(tool: Tool, folders: readonly string[]): Tool {
  const { subject } = tool;
  if (folders.length === 0 || !subject) return tool;
  const run = async (input: JsonObject, context: ToolContext) => {
    const real = await Promise.all(folders.map((folder) => realpath(folder).catch(() => folder)));
    const { paths = [] } = await subject(input, context.workspace);
    if (paths.some((path) => real.some((folder) => isWithin(folder, path)))) {
      return failure("the path belongs to Rotunda itself, and no tool may touch it");
    }
    // Again when a file is open: a link may lead elsewhere by then.
    const hiddenPaths = [...(context.hiddenPaths ?? []), ...real.map((folder) => `${literal(folder)}/**`)];
    return tool.run(input, { ...context, hiddenPaths });
  };
  return { ...tool, run };
}
