/**
 * History: what was said before, as blocks, and what it has used.
 *
 * Invariant: it only reads, and no more than is looked at: the newest turns first, older ones one part at a time.
 */
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { Entry, Item } from "../../types/item.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { StoredResponse } from "../../types/store.ts";
import { type Block, NoteBlock, SaidBlock } from "./block.ts";
import { Reader, type Todo, textOf } from "./reader.ts";
import { type Older, Transcript } from "./transcript.ts";

/** The end of a path. */
export interface LoadedPath {
  /** The last one. */
  node: ResponseNode;
  /** In order. */
  blocks: Block[];
  todos: Todo[];
  /** What the person said, oldest first. */
  said: string[];
  /** The response before these. */
  before: string | null;
}

/** Responses that are read at once, and blocks after which it is enough. */
const TURNS = 25;
const BLOCKS = 200;

/** The newest turns of the path to a response. Throws `not_found`. */
export async function readPath(app: App, id: string): Promise<LoadedPath> {
  const part = await readBack(app, id, true);
  const [last] = part.read;
  if (!last) throw new RotundaError("not_found", `there is no response ${id}`);
  return { node: last.node, ...part };
}

/** Shows what was read; the transcript reads what is older when a person scrolls up to it. */
export function showPath(app: App, { blocks, before }: LoadedPath, transcript: Transcript): void {
  for (const block of blocks) transcript.add(block);
  transcript.older = olderThan(app, before);
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
  reader.readAll(outputOf(entries), tookOf(entries));
  if (node.status === "cancelled") reader.brokenOff();
  if (node.error && node.status !== "cancelled")
    transcript.add(new NoteBlock(`${node.error.message} [${node.error.code}]`, "error"));
  for (const text of endTexts(node)) transcript.add(new NoteBlock(text, "warn"));
  return reader;
}

/** Milliseconds of calls by their ids. */
function tookOf(entries: readonly Entry[]): Map<string, number> {
  return new Map(
    entries.flatMap(({ item, meta: { duration } }) => (duration === undefined ? [] : [[item.id, duration]])),
  );
}

/** In order; what steered it stands behind the answer that the model gave when it came. */
function outputOf(entries: readonly Entry[]): Item[] {
  const items: Item[] = [];
  let steering: Entry[] = [];
  for (const entry of entries.filter(({ side }) => side === "output")) {
    if (entry.meta.synthetic === "steer") {
      steering.push(entry);
      continue;
    }
    items.push(...steering.filter(({ turn }) => turn < entry.turn).map(({ item }) => item), entry.item);
    steering = steering.filter(({ turn }) => turn >= entry.turn);
  }
  return [...items, ...steering.map(({ item }) => item)];
}

/** What is to be said of an end that was none of the usual. `elsewhere`: the person here has not asked for it. */
export function endTexts(node: ResponseNode, elsewhere = false): string[] {
  const texts: string[] = [];
  if (node.status === "cancelled") texts.push(elsewhere ? "Cancelled at another door." : "Cancelled.");
  if (node.incompleteReason === "max_output_tokens") texts.push("[Response truncated due to length limit]");
  else if (node.incompleteReason === "max_turns") texts.push("[Agent stopped — reached maximum iteration limit]");
  else if (node.incompleteReason !== null && node.status !== "cancelled")
    texts.push(`[incomplete: ${node.incompleteReason}]`);
  if (node.degraded) texts.push("[degraded: the model could not answer; this was made of the tool results]");
  return texts;
}

function saidIn({ item, side, meta }: Entry): string[] {
  const person = side === "input" && item.type === "message" && item.role === "user" && meta.synthetic === undefined;
  return person ? [textOf(item)] : [];
}
