/**
 * History: what was said before, as blocks, and what it has used.
 *
 * Invariant: it only reads. Of a very long path the end is shown; the rest is in the tree.
 */
import type { App } from "../../types/app.ts";
import type { Entry } from "../../types/item.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { StoredResponse } from "../../types/store.ts";
import { rootOf } from "../../util/outermost.ts";
import { NoteBlock, SaidBlock } from "./block.ts";
import { Reader, type Todo, textOf } from "./reader.ts";
import type { Transcript } from "./transcript.ts";

export interface LoadedUsage {
  /** Of the whole tree, sub-agents included. */
  tokens: number;
  /** US dollars. */
  cost: number;
  /** Tokens of the last prompt and its answer: what the model has to keep in mind. */
  context: number;
}

export interface LoadedPath {
  /** The last one. */
  node: ResponseNode;
  todos: Todo[];
  usage: LoadedUsage;
  /** What the person said, oldest first. */
  said: string[];
}

/** Responses of a path that are shown. */
const SHOWN = 400;

export async function showPath(app: App, id: string, transcript: Transcript): Promise<LoadedPath> {
  const path = await app.store.path(id);
  const last = path.at(-1);
  if (!last) throw new Error(`there is no response ${id}`);
  const shown = path.slice(-SHOWN);
  if (shown.length < path.length)
    transcript.add(new NoteBlock(`${path.length - shown.length} turns before these: /tree shows them.`));
  let todos: Todo[] = [];
  for (const stored of shown) {
    const reader = showResponse(stored, transcript, stored === last);
    if (reader.todos) todos = reader.todos;
  }
  const usage = last.node.endedAt === null ? { tokens: 0, cost: 0, context: 0 } : await usageOf(app, last.node);
  const said = shown.flatMap(({ entries }) => entries.flatMap((entry) => saidIn(entry)));
  return { node: last.node, todos, usage, said };
}

/** What runs is left out: it is read from its events. */
export function showResponse({ node, entries }: StoredResponse, transcript: Transcript, isLast: boolean): Reader {
  const reader = new Reader(transcript);
  for (const text of entries.flatMap((entry) => saidIn(entry))) transcript.add(new SaidBlock(text));
  if (isLast && node.endedAt === null) return reader;
  reader.readAll(entries.filter(({ side }) => side === "output").map(({ item }) => item));
  for (const { item, meta } of entries) {
    const view = reader.calls.get(item.id)?.view;
    if (view && meta.duration !== undefined) view.took = meta.duration;
  }
  if (node.error) transcript.add(new NoteBlock(`${node.error.message} [${node.error.code}]`, "error"));
  else if (node.status === "cancelled") transcript.add(new NoteBlock("Cancelled.", "warn"));
  return reader;
}

function saidIn({ item, side, meta }: Entry): string[] {
  const person = side === "input" && item.type === "message" && item.role === "user" && meta.synthetic === undefined;
  return person ? [textOf(item)] : [];
}

export async function usageOf(app: App, node: ResponseNode): Promise<LoadedUsage> {
  const [{ tokens, cost }, stored] = await Promise.all([
    rootOf(app, node.id).then((root) => app.store.usedBelow(root)),
    app.store.get(node.id),
  ]);
  return { tokens, cost, context: contextOf(stored?.entries ?? []) };
}

function contextOf(entries: readonly Entry[]): number {
  const usage = entries.findLast(({ meta }) => meta.usage !== undefined)?.meta.usage;
  return usage ? usage.input_tokens + usage.output_tokens : 0;
}
