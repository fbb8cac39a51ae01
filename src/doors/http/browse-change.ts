/**
 * What a call that waits for a person would change: the file as it is now.
 *
 * Invariant: only of a call that waits, of our own write and edit, in the workspace of its run, and only what the agent
 * that asks could read without asking: whoever answers for an agent sees no more through it than the agent does.
 */
import { RotundaError } from "../../types/error.ts";
import type { JsonObject } from "../../types/json.ts";
import type { ResponseNode } from "../../types/response.ts";
import { matchesPath, parseRule } from "../../util/path-pattern.ts";
import { matchesName } from "../../util/text.ts";
import { errorCode, openInside, protectedReason, resolveInWorkspace } from "../../util/workspace-path.ts";
import { ownApproval } from "./access.ts";
import type { RequestContext } from "./context.ts";
import type { Handler } from "./routes.ts";

/** Bytes of a file that is shown. */
const MOST = 200_000;
/** Agents above an agent whose rules are looked at. */
const DEEPEST = 20;

interface Before {
  /** Null: it may not be looked at. */
  exists: boolean | null;
  before: string | null;
}

const HIDDEN: Before = { exists: null, before: null };

export const readChange: Handler = async (context) => {
  const { app, params } = context;
  const approval = await ownApproval(context, params.id ?? "");
  const path = approval.status === "pending" ? pathOf(approval.arguments) : undefined;
  const node = await app.store.node(approval.responseId);
  if (path === undefined || !node || !(await isOurs(context, approval.tool))) {
    throw new RotundaError("not_found", `approval ${approval.id} changes no file that could be shown`);
  }
  const { exists, before } = (await mayRead(context, node, path)) ? await readNow(node.workspace, path) : HIDDEN;
  context.json(200, { path, exists, before: before === null ? null : app.redact(before) });
};

function pathOf(written: string): string | undefined {
  const { file_path: path } = JSON.parse(written) as JsonObject;
  return typeof path === "string" && path !== "" ? path : undefined;
}

/** A server's tool may have the same name. */
async function isOurs({ app }: RequestContext, name: string): Promise<boolean> {
  if (name !== "write" && name !== "edit") return false;
  return (await app.engine.tools()).every((tool) => tool.name !== name || tool.server === "rotunda");
}

/** By the rules of its profile, of what its callers have bound it to, and of the profiles of these. */
async function mayRead({ app }: RequestContext, node: ResponseNode, path: string): Promise<boolean> {
  const { workspace } = node;
  const place = await resolveInWorkspace(workspace, path).catch(() => undefined);
  if (!place?.inside) return false;
  const { real: root } = await resolveInWorkspace(workspace, ".");
  if (protectedReason(root, place.real) !== undefined) return false;
  const bounds = [...(node.settings.bounds?.deny ?? []), ...(node.settings.bounds?.ask ?? [])];
  if (bounds.some((rule) => isAboutReading(rule, place.real, root))) return false;
  const input = { files: [{ file_path: path }] };
  let agent: ResponseNode | undefined = node;
  for (let depth = 0; agent && depth < DEEPEST; depth++) {
    const judged = await app.engine.judge("read", input, { workspace, profile: agent.profile });
    if (judged.effect !== "allow") return false;
    agent = agent.caller ? await app.store.node(agent.caller.responseId) : undefined;
  }
  return agent === undefined;
}

function isAboutReading(rule: string, path: string, root: string): boolean {
  const { tool, pattern } = parseRule(rule);
  const named = ["read", "rotunda:read", "rotunda__read"].some((name) => matchesName(tool, name));
  return named && (pattern === null || matchesPath(pattern, path, root));
}

async function readNow(workspace: string, path: string): Promise<Before> {
  try {
    const { handle, stats } = await openInside(workspace, path);
    try {
      if (stats.size > MOST) return { exists: true, before: null };
      const bytes = Buffer.alloc(MOST);
      const { bytesRead } = await handle.read(bytes, 0, MOST, 0);
      return { exists: true, before: textOf(bytes.subarray(0, bytesRead)) };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return errorCode(error) === "ENOENT" ? { exists: false, before: null } : HIDDEN;
  }
}

/** Null: it is no text. */
function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
