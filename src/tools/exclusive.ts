/**
 * One change of a file at a time.
 *
 * Invariant: of all calls in this process that change the same file, each sees what the one before left.
 */
import { resolveInWorkspace } from "../util/workspace-path.ts";

const last = new Map<string, Promise<unknown>>();

/** Runs `change` when every earlier change of the file has ended. */
export async function exclusively<Result>(
  workspace: string,
  path: string,
  change: () => Promise<Result>,
): Promise<Result> {
  const { real } = await resolveInWorkspace(workspace, path);
  const before = last.get(real) ?? Promise.resolve();
  const mine = before.then(change, change);
  last.set(real, mine);
  try {
    return await mine;
  } finally {
    if (last.get(real) === mine) last.delete(real);
  }
}
