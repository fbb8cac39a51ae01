/** Why nothing can go on from a response that has not ended: it runs elsewhere, was interrupted, or waits. Loaded only then. */
import type { App } from "../../types/app.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { shortId } from "../../util/ids.ts";
import { outermost } from "../../util/outermost.ts";
import { isHeld } from "../../util/process-name.ts";

/** What is thrown instead of `response_not_ended`, with what can be done; everything else as it is. */
export async function explained(app: App, thrown: unknown): Promise<unknown> {
  const { code, message } = toRotundaError(thrown);
  const named = code === "response_not_ended" ? /resp_\w+/.exec(message)?.[0] : undefined;
  const node = named === undefined ? undefined : await app.store.node(named);
  if (!node || node.endedAt !== null) return thrown;
  const id = shortId(node.id);
  const orEnd = `or end it: rotunda cancel ${id}`;
  const because = (text: string, remedy: string) =>
    new RotundaError("response_not_ended", `${node.id} ${text}`, { remedy, cause: thrown });
  if (node.status === "waiting") {
    const asked = await Promise.all(
      (await app.store.approvals({ status: "pending" })).map(({ responseId }) => outermost(app, responseId)),
    );
    if (asked.includes(node.id))
      return because("waits for a person's answer", `See what it asks: rotunda approvals, ${orEnd}`);
    return because("waits", `Go on with it first: rotunda resume ${id}, ${orEnd}`);
  }
  if (isHeld(await app.store.leaseOf(node.id))) {
    const wait = `Follow it to its end and ask then: rotunda log --follow ${id}, ${orEnd}`;
    return because("is just being answered by another process", wait);
  }
  if (node.status === "queued") return because("waits for its turn in the queue", `Ask when it has ended, ${orEnd}`);
  return because("was interrupted", `Go on with it first: rotunda resume ${id}, ${orEnd}`);
}
