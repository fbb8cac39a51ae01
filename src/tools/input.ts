/**
 * Checks of what a model sent, and the results of calls that went wrong.
 *
 * Invariant: a tool of ours answers every failure as a result that names the field or the file, and lets only
 * two things through: what `context.delegate` throws, and nothing else.
 */
import type { JsonObject } from "../types/json.ts";
import type { CallSubject, ToolContext, ToolResult } from "../types/tool.ts";
import { errorCode, isWithin, PathError, resolveInWorkspace } from "../util/workspace-path.ts";

/** What the model has to do differently; its message is the result. */
export class InputError extends Error {
  override readonly name = "InputError";
}

export function requiredText(input: JsonObject, field: string, where = ""): string {
  const value = input[field];
  if (value === undefined || value === null) throw new InputError(`${where}${field} is required`);
  if (typeof value !== "string") throw new InputError(`${where}${field} must be a string`);
  return value;
}

export function filledText(input: JsonObject, field: string, where = ""): string {
  const value = requiredText(input, field, where);
  if (value.trim() === "") throw new InputError(`${where}${field} cannot be empty`);
  return value;
}

export function optionalText(input: JsonObject, field: string): string | undefined {
  const value = input[field];
  return value === undefined || value === null || value === "" ? undefined : requiredText(input, field);
}

/** A whole number of at least `minimum`. */
export function optionalInteger(input: JsonObject, field: string, minimum: number, where = ""): number | undefined {
  const value = input[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < minimum) {
    throw new InputError(`${where}${field} must be a whole number of at least ${minimum}`);
  }
  return value;
}

export function optionalFlag(input: JsonObject, field: string, where = ""): boolean {
  const value = input[field];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw new InputError(`${where}${field} must be true or false`);
  return value;
}

export function requiredList(input: JsonObject, field: string, what: string): JsonObject[] {
  const value = input[field];
  if (value === undefined || value === null) throw new InputError(`${field} is required`);
  if (!Array.isArray(value)) throw new InputError(`${field} must be a list`);
  return value.map((entry, index) => {
    if (typeof entry === "object" && entry !== null && !Array.isArray(entry)) return entry;
    throw new InputError(`${what} #${index + 1} must be an object`);
  });
}

export function failure(text: string): ToolResult {
  return { text, isError: true };
}

const MEANINGS: Record<string, string> = {
  ENOENT: "no such file or directory",
  EACCES: "permission denied",
  EPERM: "operation not permitted",
  EISDIR: "is a directory",
  ENOTDIR: "a part of the path is not a directory",
  EROFS: "read-only file system",
  ENOSPC: "no space left on the device",
  EDQUOT: "the disk quota is used up",
  ENAMETOOLONG: "the file name is too long",
  ENXIO: "is not a regular file",
  EMFILE: "too many open files",
};

/** Any thrown value in words for the model, without paths of our own. */
export function explain(thrown: unknown): string {
  if (thrown instanceof InputError || thrown instanceof PathError) return thrown.message;
  const code = errorCode(thrown);
  if (code !== undefined && MEANINGS[code]) return MEANINGS[code];
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** `run` of a tool, with every failure as a result. */
export function answering(run: (input: JsonObject, context: ToolContext) => Promise<ToolResult>) {
  return async (input: JsonObject, context: ToolContext): Promise<ToolResult> => {
    try {
      return await run(input, context);
    } catch (thrown) {
      return failure(explain(thrown));
    }
  };
}

/** The subject of a call by the paths that it names; a path that cannot be resolved is not inside. */
export async function pathSubject(workspace: string, paths: readonly string[]): Promise<CallSubject> {
  const resolved = await Promise.all(
    paths.map((path) => resolveInWorkspace(workspace, path).catch(() => ({ real: path, inside: false }))),
  );
  return { paths: resolved.map(({ real }) => real), inside: resolved.every(({ inside }) => inside) };
}

/** A folder or file of the workspace to search in, canonical. Throws `InputError` when it is outside or missing. */
export async function searchRoot(workspace: string, path: string): Promise<{ root: string; real: string }> {
  const { real: root } = await resolveInWorkspace(workspace, ".");
  const { real } = await resolveInWorkspace(root, path);
  if (!isWithin(root, real)) throw new InputError(`"${path}" is outside the workspace ${root}`);
  return { root, real };
}
