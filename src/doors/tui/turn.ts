/**
 * Turn: a response that runs, watched to its end.
 *
 * Invariant: it is watched the same way in whichever process it runs; where that one is gone it goes on here.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { RunEvent } from "../../types/event.ts";
import type { ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { parked } from "../../util/parked.ts";
import { isHeld } from "../../util/process-name.ts";
import type { Ask } from "./asks.ts";
import { Reader } from "./reader.ts";
import type { Transcript } from "./transcript.ts";

/** Milliseconds between two looks at what nobody runs. */
const LOOK = 150;

export interface Turn {
  id: string;
  /** The conversation that it stands in. */
  conversation: string | null;
  reader: Reader;
  began: number;
  /** The person has asked for its end. */
  cancelled: boolean;
}

/** What a response says from now on stands in the transcript. */
export function turnIn(transcript: Transcript, { id, conversationId, createdAt }: ResponseNode): Turn {
  const reader = new Reader(transcript);
  reader.doing = "waiting for the model";
  return { id, conversation: conversationId, reader, began: createdAt, cancelled: false };
}

export interface Watching {
  app: App;
  signal: AbortSignal;
  note(text: string, kind?: "info" | "warn"): void;
  /** Events that came at once; the reader has read them. */
  heard(events: readonly RunEvent[]): void;
}

/** Resolves with how it has ended; undefined where the signal was first. Throws `not_found`. */
export async function watchTurn(turn: Turn, watching: Watching): Promise<ResponseNode | undefined> {
  const { app, signal } = watching;
  let told = false;
  for (;;) {
    for await (const group of app.engine.watch(turn.id, turn.reader.after, signal).groups()) {
      for (const event of group) turn.reader.read(event);
      watching.heard(group);
    }
    if (signal.aborted) return undefined;
    const node = await app.store.node(turn.id);
    if (!node) throw new RotundaError("not_found", "the response was deleted");
    if (node.endedAt !== null) return node;
    if (node.error && !told) {
      told = true;
      watching.note(`It waits: ${node.error.message}. Raise the budget (rotunda budget set), then /resume.`, "warn");
    }
    // Nobody runs it: it waits for a person, or its process is gone.
    if (await isLeft(app, node)) await takeOver(node.id, watching);
    await sleep(LOOK, undefined, { signal }).catch(() => undefined);
  }
}

/** Whether it was begun, or queued, by a process that is gone. What waits for workers is theirs. */
export async function isLeft({ queue, store }: App, { id, status }: ResponseNode): Promise<boolean> {
  const runs = status === "in_progress" || (status === "queued" && queue === undefined);
  return runs && !isHeld(await store.leaseOf(id));
}

/** Goes on with what was left in the middle, unless somebody else does. */
async function takeOver(id: string, { app, note }: Watching): Promise<void> {
  try {
    await app.engine.resume(id, parked);
    note(`Going on with ${shortId(id)}, which was left in the middle.`);
  } catch (error) {
    const { code } = toRotundaError(error);
    if (code !== "owned_elsewhere" && code !== "response_ended") throw error;
  }
}

/** Calls that wait for a person say so. */
export function markAsking(turn: Turn | undefined, asks: readonly Ask[]): void {
  for (const ask of asks) {
    const block = ask.kind === "approval" ? turn?.reader.calls.get(ask.approval.itemId) : undefined;
    if (block?.view.status !== "in_progress") continue;
    block.view.status = "asking";
    block.changed();
  }
}
