/**
 * Recover: a response whose process is gone becomes a run of this process.
 *
 * Invariant: what was told stays true. An item that was begun and never ended is closed as `incomplete`
 * with exactly the text that had been told of it; the sequence goes on where it stopped.
 */

import type { Approver } from "../types/engine.ts";
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import type { Entry, Item } from "../types/item.ts";
import type { Lease, Store, StoredResponse } from "../types/store.ts";
import { closeText } from "./answer.ts";
import { firstEvents } from "./begin.ts";
import { isCall } from "./next.ts";
import { Run } from "./run.ts";

interface OpenItem {
  position: number;
  item: Item;
  text: string;
  kind: "text" | "refusal" | "reasoning";
}

export interface RecoverOptions {
  store: Store;
  stored: StoredResponse;
  lease: Lease;
  approver: Approver | undefined;
}

/**
 * The response as a run of this process. What is stored is read only once it is ours: before, it may still change.
 * Throws `owned_elsewhere` where another process has it, or it has ended.
 */
export async function take(store: Store, id: string, process: string, approver: Approver | undefined): Promise<Run> {
  const lease = await store.claim(id, process);
  const stored = lease && (await store.get(id));
  if (!stored) {
    throw new RotundaError("owned_elsewhere", `response ${id} is being run by another process, or has ended`);
  }
  const run = await recover({ store, stored, lease, approver });
  // Whoever leaves a response alive gives its lease up; one that was still there is that of a crash.
  const restarts = lease.crashed ? run.node.restarts + 1 : 0;
  if (restarts !== run.node.restarts) run.patch({ restarts });
  return run;
}

export async function recover({ store, stored, lease, approver }: RecoverOptions): Promise<Run> {
  const isFresh = stored.node.status === "queued" && stored.entries.every(({ side }) => side === "input");
  // Nothing has happened yet: its log is the beginning that every queued one has.
  const events = isFresh ? firstEvents(stored.node, []) : await allEvents(store, stored.node.id);
  const input = stored.entries.filter((entry) => entry.side === "input");
  const options = { approver, nextSequence: events.length, events: events.slice(-1_000) };
  const run = new Run(store, stored.node, input, lease, options);
  for (const entry of stored.entries) if (entry.side === "output") run.output[entry.position] = entry;
  run.delegated = run.output.some((entry) => entry && isCall(entry));
  const turn = stored.entries.reduce((highest, entry) => Math.max(highest, entry.turn), 0);
  const finished = stored.entries.some((entry) => entry.turn === turn && entry.meta.finish !== undefined);
  for (const open of openItems(events, run.output)) close(run, open, Math.max(1, finished ? turn + 1 : turn));
  return run;
}

async function allEvents(store: Store, id: string): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for (;;) {
    const page = await store.events(id, events.length - 1, 5_000);
    events.push(...page);
    if (page.length < 5_000) return events;
  }
}

/** Items that were begun, have no entry, and so were being said when the process ended. */
function openItems(events: readonly RunEvent[], output: readonly (Entry | undefined)[]): OpenItem[] {
  const open = new Map<number, OpenItem>();
  for (const event of events) {
    if (event.type === "response.output_item.added") {
      const { output_index: position, item } = event;
      const kind = item.type === "reasoning" ? "reasoning" : "text";
      if (!output[position]) open.set(position, { position, item, text: "", kind });
    } else if ("delta" in event) {
      const item = open.get(event.output_index);
      if (!item) continue;
      item.text += event.delta;
      if (event.type === "response.refusal.delta") item.kind = "refusal";
    }
  }
  return [...open.values()];
}

function close(run: Run, { position, item, text, kind }: OpenItem, turn: number): void {
  if (item.type === "message" || item.type === "reasoning") {
    closeText(run, { position, item, kind, text, turn, status: "incomplete", meta: {} });
    return;
  }
  if (item.type !== "mcp_call" && item.type !== "function_call") return;
  const closed: Item =
    item.type === "mcp_call"
      ? { ...item, arguments: text, status: "incomplete", error: "not run: the answer was cut before it was whole" }
      : { ...item, arguments: text, status: "incomplete" };
  const at = { output_index: position, item_id: item.id };
  if (item.type === "mcp_call") run.emit({ type: "response.mcp_call_arguments.done", ...at, arguments: text });
  else run.emit({ type: "response.function_call_arguments.done", ...at, name: item.name, arguments: text });
  run.put({ side: "output", position, turn, item: closed, meta: {} });
  run.emit({ type: "response.output_item.done", output_index: position, item: closed });
}
