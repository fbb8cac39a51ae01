/** Outermost: from a sub-agent up to the response that somebody asked for. Invariant: callers form no circle. */
import type { App } from "../types/app.ts";

/** The response that a person started, above a sub-agent's. */
export async function outermost(app: App, id: string): Promise<string> {
  const caller = (await app.store.node(id))?.caller;
  return caller ? outermost(app, caller.responseId) : id;
}
