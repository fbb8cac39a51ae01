/**
 * Outermost: from a sub-agent up to the response that somebody asked for, and from there to where its tree begins.
 * Invariant: neither callers nor parents form a circle.
 */
import type { App } from "../types/app.ts";

/** The response that a person started, above a sub-agent's. */
export async function outermost(app: App, id: string): Promise<string> {
  const caller = (await app.store.node(id))?.caller;
  return caller ? outermost(app, caller.responseId) : id;
}

/** The first response of the tree that one stands in: what a budget for `tree/ID` is kept under. */
export async function rootOf(app: App, id: string): Promise<string> {
  let node = await app.store.node(await outermost(app, id));
  for (let parent = node?.previousResponseId; node && parent; parent = node?.previousResponseId) {
    const above = await app.store.node(parent);
    if (!above) break;
    node = above;
  }
  return node?.id ?? id;
}
