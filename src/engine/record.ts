/**
 * Record: items that somebody brings along become a response of the tree, without a model.
 *
 * Invariant: what is recorded is a node like any other, ended and sealed by its hash in the commit that makes it: no
 * process ever finds it unended.
 */
import type { RecordRequest } from "../types/engine.ts";
import { finish } from "./advance.ts";
import { firstEvents, place } from "./begin.ts";
import type { EngineParts } from "./parts.ts";
import { Run } from "./run.ts";
import { entriesOf, itemsOf } from "./text.ts";

export async function recordRun(parts: EngineParts, request: RecordRequest, process: string): Promise<Run> {
  const { store } = parts;
  const profile = await parts.profiles.get(request.profile);
  const made = { profile: profile.name, model: request.model ?? "", now: parts.now() };
  const { node, conversation } = await place(store, { ...request, queue: false }, made);
  if (request.omit) node.settings = { ...node.settings, omit: request.omit };
  const input = request.omit && request.input.length === 0 ? [] : entriesOf(itemsOf(request.input));
  const events = firstEvents(node, []);
  const created = store.create({ node, input, events, process, conversation });
  const options = { approver: undefined, nextSequence: events.length, events };
  const run = new Run(store, node, input, { process, fence: 1 }, options);
  finish(parts, run, "completed", { status: "completed" });
  run.stopwatch.stop();
  // Handed in together and so committed together: a crash in between would leave something to go on with.
  const committed = run.commit();
  committed.catch(() => undefined);
  await created;
  await committed;
  run.ended = true;
  return run;
}
