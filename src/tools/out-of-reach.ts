/**
 * Out of reach: file tools that keep away from keys, passwords and Rotunda's own files, where a workspace (a home
 * directory) holds them.
 *
 * Invariant: what lies at one of the paths is neither read nor written by a tool of a model, as no command sees it: the
 * local token that lies there may do everything.
 */
import { realpath } from "node:fs/promises";
import type { JsonObject } from "../types/json.ts";
import type { Tool, ToolContext } from "../types/tool.ts";
import { literal } from "../util/path-pattern.ts";
import { ownSecretPaths } from "../util/secret-paths.ts";
import { isWithin } from "../util/workspace-path.ts";
import { failure } from "./input.ts";

/** A tool whose `subject` names its paths, kept out of these folders (absolute; they need not exist), and of secrets. */
export function outOfReach(tool: Tool, rotunda: readonly string[]): Tool {
  const { subject } = tool;
  if (!subject) return tool;
  const run = async (input: JsonObject, context: ToolContext) => {
    const root = await realpath(context.workspace).catch(() => context.workspace);
    // A workspace that lies in one of them was chosen to be worked in.
    const inside = (paths: readonly string[]) => paths.filter((path) => path !== root && isWithin(root, path));
    const own = await Promise.all(rotunda.map((folder) => realpath(folder).catch(() => folder)));
    const secrets = inside(ownSecretPaths());
    const hidden = [...inside(own), ...secrets];
    const { paths = [] } = await subject(input, context.workspace);
    const isAmong = (folders: readonly string[]) => paths.some((path) => folders.some((one) => isWithin(one, path)));
    if (isAmong(own)) return failure("the path belongs to Rotunda itself, and no tool may touch it");
    if (isAmong(secrets)) return failure("the path holds keys or passwords of the user, and no tool may touch it");
    // Again when a file is open: a link may lead elsewhere by then.
    const patterns = hidden.flatMap((path) => [literal(path), `${literal(path)}/**`]);
    return tool.run(input, {
      ...context,
      hiddenPaths: [...(context.hiddenPaths ?? []), ...patterns],
      untouchable: hidden,
    });
  };
  return { ...tool, run };
}
