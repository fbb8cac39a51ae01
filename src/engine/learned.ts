/**
 * Rules that came from answers, and whom they hold for.
 *
 * Invariant: "session" is one conversation (for a sub-agent its outermost caller's; without a conversation the
 * response itself), "always" is one workspace. No answer reaches further.
 */
import type { LearnedRule } from "../types/approval.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Store } from "../types/store.ts";

/** What the "session" of a response is. */
export async function sessionOf(store: Store, node: ResponseNode | undefined): Promise<string> {
  if (node?.caller) return sessionOf(store, await store.node(node.caller.responseId));
  return node?.conversationId ?? node?.id ?? "";
}

/** The rules that hold for a response. */
export async function learnedRules(store: Store, node: ResponseNode): Promise<LearnedRule[]> {
  return store.rules([node.workspace, await sessionOf(store, node)]);
}
