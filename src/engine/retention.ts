/**
 * Retention: what is older than it is to be kept is deleted.
 *
 * Invariant: nothing is deleted that something kept goes on from; its id and hash remain, its content goes as with any
 * deletion. The word of a conversation (`keep` in its metadata) beats its profile's, that of the profile the
 * configuration's.
 */
import { setImmediate } from "node:timers/promises";
import type { Pruned, PruneOptions } from "../types/engine.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Store } from "../types/store.ts";
import { keepOf, keepPattern } from "../util/duration.ts";
import type { EngineParts } from "./parts.ts";

const PAGE = 200;

export async function prune(parts: EngineParts, options: PruneOptions = {}): Promise<Pruned> {
  const { store } = parts;
  const now = parts.now();
  const result: Pruned = { deleted: 0, conversations: 0 };
  /** With what each of them goes on from. */
  const gone = new Map<string, string | null>();
  const touched = new Set<string>();
  const shortest = await shortestKeep(parts, options);
  if (shortest === Number.POSITIVE_INFINITY) return result;
  // Newest first: whatever goes on from a response has been looked at before it, or is too young to go.
  for (let before: string | undefined; ; ) {
    const page: ResponseNode[] = await store.list({
      limit: PAGE,
      endedBefore: now - shortest,
      ...(before !== undefined && { before }),
    });
    for (const node of page) {
      if (node.caller !== null || node.endedAt === null) continue; // A sub-agent goes with its caller.
      const keep = options.olderThan ?? (await keepFor(parts, node));
      if (!(node.endedAt + keep < now)) continue;
      if (await isNeeded(store, node.id, gone)) continue;
      gone.set(node.id, node.previousResponseId);
      result.deleted++;
      if (node.conversationId !== null) touched.add(node.conversationId);
      if (!options.dryRun) await store.delete(node.id);
    }
    before = page.at(-1)?.id;
    if (page.length < PAGE || before === undefined) break;
    options.progress?.(result.deleted);
    await setImmediate();
  }
  for (const id of touched) {
    const conversation = await store.conversation(id);
    if (!conversation || !(await isEmptied(store, conversation.head, gone))) continue;
    result.conversations++;
    if (!options.dryRun) await store.removeConversation(id);
  }
  return result;
}

/** Whether something that stays goes on from it, or from one of its sub-agents. */
async function isNeeded(store: Store, id: string, gone: ReadonlyMap<string, string | null>): Promise<boolean> {
  const children = await store.children(id);
  if (children.some((child) => child.caller === null && !gone.has(child.id))) return true;
  for (const subAgent of await store.list({ callerResponseId: id, limit: 1_000 })) {
    if (await isNeeded(store, subAgent.id, gone)) return true;
  }
  return false;
}

/**
 * Whether a pointer has nothing left to stand at. Where the deletions were carried out it stands at what is left, or
 * nowhere, already; else it is followed to where it would go. It may have stood nowhere before, where a first turn failed.
 */
async function isEmptied(store: Store, head: string | null, gone: ReadonlyMap<string, string | null>) {
  for (let at = head; at !== null; ) {
    const id = at;
    const above = gone.get(id);
    if (above !== undefined) at = above;
    else if (await store.node(id)) return false;
    // Deleted before, and only still there for what goes on from it.
    else at = (await store.path(id, (one) => one !== id)).at(-1)?.node.previousResponseId ?? null;
  }
  return true;
}

/** Milliseconds that everything is kept at least. */
async function shortestKeep({ store, profiles, keep = Number.POSITIVE_INFINITY }: EngineParts, options: PruneOptions) {
  if (options.olderThan !== undefined) return options.olderThan;
  const own = await store.conversations({ limit: 100_000, kept: true });
  const all = await Promise.all(profiles.list().map(({ name }) => profiles.get(name)));
  const words = [...all.map((profile) => profile.keep), ...own.map(({ metadata }) => metadata.keep)];
  return Math.min(keep, ...words.map((word) => (typeof word === "string" ? keepOf(word) : keep)));
}

/** Milliseconds. */
async function keepFor({ store, profiles, keep = Number.POSITIVE_INFINITY }: EngineParts, node: ResponseNode) {
  const conversation = node.conversationId === null ? undefined : await store.conversation(node.conversationId);
  const own = conversation?.metadata.keep;
  if (typeof own === "string" && keepPattern.test(own)) return keepOf(own);
  // Whoever it was may not be configured any more.
  const profile = await profiles.get(node.profile).catch(() => undefined);
  return profile?.keep === undefined ? keep : keepOf(profile.keep);
}
