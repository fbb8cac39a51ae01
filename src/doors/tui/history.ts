/**
 * History: what was said before, as blocks, and what it has used.
 *
 * Invariant: it only reads, and no more than is looked at: the newest turns first, older ones one part at a time.
 */
import type { App } from "../../types/app.ts";
import type { Entry } from "../../types/item.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { StoredResponse } from "../../types/store.ts";
import { rootOf } from "../../util/outermost.ts";
import { type Block, NoteBlock, SaidBlock } from "./block.ts";
import { Reader, type Todo, textOf } from "./reader.ts";
import { type Older, Transcript } from "./transcript.ts";

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
  /** What the person said, oldest first. */
  said: string[];
}

/** Responses that are read at once, and blocks after which it is enough. */
const TURNS = 25;
const BLOCKS = 200;

/** Shows the newest turns of the path to a response; the transcript reads older ones when a person scrolls up to them. */
export async function showPath(app: App, id: string, transcript: Transcript): Promise<LoadedPath> {
  const part = await readBack(app, id, true);
  const [last] = part.read;
  if (!last) throw new Error(`there is no response ${id}`);
  for (const block of part.blocks) transcript.add(block);
  transcript.older = olderThan(app, part.before);
  return { node: last.node, todos: part.todos, said: part.said };
}

function olderThan(app: App, id: string | null): Older | undefined {
  if (id === null) return undefined;
  return async () => {
    const { blocks, before } = await readBack(app, id, false);
    return { blocks, older: olderThan(app, before) };
  };
}

interface Part {
  /** In order. */
  blocks: Block[];
  /** Newest first. */
  read: StoredResponse[];
  todos: Todo[];
  said: string[];
  /** The response before these. */
  before: string | null;
}

async function readBack(app: App, id: string, isEnd: boolean): Promise<Part> {
  const part: Part = { blocks: [], read: [], todos: [], said: [], before: id };
  while (part.before !== null && part.read.length < TURNS && part.blocks.length < BLOCKS) {
    const stored = await app.store.get(part.before);
    if (!stored) {
      part.blocks.unshift(new NoteBlock("What was said before was deleted."));
      part.before = null;
      break;
    }
    const shown = new Transcript();
    const { todos } = showResponse(stored, shown, isEnd && part.read.length === 0);
    part.blocks.unshift(...shown.blocks);
    if (part.todos.length === 0 && todos) part.todos = todos;
    part.said.unshift(...stored.entries.flatMap((entry) => saidIn(entry)));
    part.read.push(stored);
    part.before = stored.node.previousResponseId;
  }
  return part;
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
