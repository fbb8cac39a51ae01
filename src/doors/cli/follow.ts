/**
 * `rotunda log --follow`: a response or a conversation as it happens, in whichever process it runs.
 *
 * Invariant: it only reads. Ctrl-C ends the reading, and nothing else.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import { type FullResponse, LOCAL } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { oneLine, visible } from "../../util/text.ts";
import { CallTimes } from "./call-times.ts";
import type { CommandContext } from "./context.ts";
import { named } from "./named.ts";
import { type Printer, StreamJsonPrinter, TextPrinter } from "./printer.ts";

/** Milliseconds between two looks whether something new has begun. */
const LOOK = 200;

export interface FollowFlags {
  json?: boolean;
  verbose?: boolean;
}

/**
 * A response is followed to its end; a conversation (by id or name; without one, this directory's latest) until Ctrl-C,
 * with each new turn. Resolves with the exit code.
 */
export async function follow(context: CommandContext, name: string | undefined, flags: FollowFlags): Promise<number> {
  const app = await context.app();
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, onSignal);
  try {
    const target = await targetOf(context, app, name);
    if ("response" in target) await followOne(context, app, target.response, flags, stop.signal);
    else await followConversation(context, app, target.conversation, flags, stop.signal);
    return 0;
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, onSignal);
  }
}

async function targetOf(
  context: CommandContext,
  app: App,
  name: string | undefined,
): Promise<{ response: string } | { conversation: string }> {
  if (name === undefined) {
    const [latest] = await app.store.conversations({ limit: 1, owner: LOCAL, workspace: context.workspace });
    if (!latest) throw new RotundaError("not_found", "there is no conversation in this directory to follow");
    return { conversation: latest.id };
  }
  const found = await named(app, name);
  return "response" in found ? found : { conversation: found.conversation.id };
}

async function followConversation(
  context: CommandContext,
  app: App,
  id: string,
  flags: FollowFlags,
  signal: AbortSignal,
): Promise<void> {
  let told: string | null = null;
  while (!signal.aborted) {
    const conversation = await app.store.conversation(id);
    if (!conversation) return;
    const { head } = conversation;
    if (head === null || head === told) {
      await sleep(LOOK, undefined, { signal }).catch(() => undefined);
      continue;
    }
    for (const next of await newTurns(app, head, told)) await followOne(context, app, next, flags, signal);
    told = head;
  }
}

/** The turns from the one that was told last up to the head; at first, and after a jump, the head alone. */
async function newTurns(app: App, head: string, told: string | null): Promise<string[]> {
  const turns = [head];
  if (told === null) return turns;
  for (let at = await app.store.node(head); at?.previousResponseId; at = await app.store.node(at.previousResponseId)) {
    if (at.previousResponseId === told) return turns;
    turns.unshift(at.previousResponseId);
    if (turns.length > 100) break;
  }
  return [head];
}

async function followOne(
  context: CommandContext,
  app: App,
  id: string,
  flags: FollowFlags,
  signal: AbortSignal,
): Promise<void> {
  const began = performance.now();
  const printer = printerFor(context, id, flags);
  if (!flags.json) head(context, await app.engine.get(id));
  const times = new CallTimes(app, id);
  let waits = false;
  for (let after = -1; !signal.aborted; ) {
    for await (const event of app.engine.watch(id, after, signal)) {
      printer.event(event, flags.json ? undefined : await times.of(event));
      after = event.sequence_number;
    }
    const node = await app.store.node(id);
    if (!node || node.endedAt !== null || signal.aborted) break;
    // It waits for a person, or for a process to go on with it.
    if (!waits && !flags.json) context.streams.err(`${shortId(id)} is ${node.status}\n`);
    waits = true;
    await sleep(LOOK, undefined, { signal }).catch(() => undefined);
  }
  if (signal.aborted || flags.json) return;
  printer.end(await app.engine.get(id), performance.now() - began);
}

function printerFor({ streams }: CommandContext, id: string, flags: FollowFlags): Printer {
  if (flags.json) return new StreamJsonPrinter(streams, id);
  return new TextPrinter(streams, { stream: true, verbose: flags.verbose === true, measured: false });
}

function head({ streams }: CommandContext, response: FullResponse): void {
  const question = response.input
    .flatMap((item) => (item.type === "message" ? item.content : []))
    .map((part) => ("text" in part ? part.text : ""))
    .join(" ");
  const { err, errStyle } = streams;
  const who = visible(`${response.profile}  ${response.model}  (${response.door})`);
  err(`${errStyle.bold(shortId(response.id))}  ${who}\nyou> ${visible(oneLine(question, 300))}\n`);
}
