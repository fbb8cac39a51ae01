/** What stands below the prompt of the shell after the screen. Invariant: what is said of a turn is read from the store. */
import { shortId } from "../../util/ids.ts";
import { isHeld } from "../../util/process-name.ts";
import { counted } from "../../util/text.ts";
import type { Session } from "./session.ts";

/** `quit`: the person has said so. */
export async function lastWords(session: Session | undefined, quit: boolean): Promise<string> {
  const lines: string[] = [];
  const queued = session?.queue.length ?? 0;
  if (queued > 0) lines.push(`Not sent: ${counted(queued, "queued message")}.`);
  if (session) lines.push(...(await whereToGoOn(session)));
  if (quit) lines.push("Goodbye.");
  return lines.map((line) => `${line}\n`).join("");
}

async function whereToGoOn({ app, running, head }: Session): Promise<string[]> {
  const goOn = (id: string) => `Go on with: rotunda chat --from ${shortId(id)}`;
  if (!running) return head === undefined ? [] : [goOn(head)];
  const id = shortId(running.id);
  const node = await app.store.node(running.id);
  if (!node || node.endedAt !== null || running.cancelled) return [goOn(running.id)];
  const lease = await app.store.leaseOf(running.id);
  const held = lease !== undefined && isHeld(lease);
  if (held && lease.process.split("/")[1] !== String(process.pid))
    return [`${id} goes on in the server. See it: rotunda chat --from ${id}`];
  if (!held && node.status === "waiting") return [`${id} waits for you. Answer it: rotunda chat --from ${id}`];
  return [`${id} was left in the middle. Go on: rotunda resume ${id}`];
}
