/**
 * Origins: whose question it is that waits for an answer.
 *
 * Invariant: of a sub-agent's question, it is what a person asked above it.
 */
import type { App } from "../types/app.ts";
import { outermost } from "./outermost.ts";

/** Where a question comes from. */
export interface Origin {
  /** The beginning of what a person asked; null where there was no text. */
  prompt: string | null;
  /** Absolute path. */
  workspace: string;
  door: string;
}

/** By the ids of the responses that ask. Those that are gone are left out. */
export async function originsOf(app: App, responseIds: Iterable<string>): Promise<Map<string, Origin>> {
  const asked = new Map<string, string>();
  for (const id of new Set(responseIds)) asked.set(id, await outermost(app, id));
  const said = await (await app.store.browsing()).excerpts([...new Set(asked.values())]);
  const origins = new Map<string, Origin>();
  for (const [id, top] of asked) {
    const node = await app.store.node(top);
    if (!node) continue;
    const { workspace, door } = node;
    origins.set(id, { prompt: said.get(top)?.prompt ?? null, workspace, door });
  }
  return origins;
}
