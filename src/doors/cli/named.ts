/**
 * What a word of the command line names: a response by any part of its id, a conversation by name or id.
 *
 * Invariant: what was deleted is said to have been, by whatever part of its id it is asked for.
 */
import type { App } from "../../types/app.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { Conversation } from "../../types/response.ts";
import { isIdPart } from "../../util/ids.ts";
import { oneLine } from "../../util/text.ts";

type Named = { conversation: Conversation } | { response: string };

/** The whole id of a response that there is. Throws `not_found`, `ambiguous_id`, `invalid_id`. */
export async function responseNamed(app: App, part: string): Promise<string> {
  try {
    const id = await app.engine.resolveId(part, "response");
    if (await app.store.node(id)) return id;
    throw new RotundaError("not_found", `there is no response ${id}`);
  } catch (thrown) {
    throw await orDeleted(app, part, thrown);
  }
}

/** Of a response that is not found: when it was deleted. Everything else as it was thrown. */
async function orDeleted(app: App, part: string, thrown: unknown): Promise<unknown> {
  if (toRotundaError(thrown).code !== "not_found" || !isIdPart(part)) return thrown;
  const gone = await (await app.store.browsing()).deleted(part);
  const [one, other] = gone;
  if (!one) return thrown;
  if (other) {
    const ids = gone.map(({ id }) => id).join(", ");
    return new RotundaError("not_found", `responses whose ids fit ${part} were deleted: ${ids}`);
  }
  const day = new Date(one.at).toISOString().slice(0, 10);
  return new RotundaError("not_found", `response ${one.id} was deleted on ${day}`);
}

/** A name comes before an id, and a response before a conversation. */
export async function named(app: App, word: string): Promise<Named> {
  const conversation = await conversationNamed(app, word);
  if (conversation) return { conversation };
  if (!isIdPart(word))
    throw new RotundaError("not_found", `there is no conversation and no response ${oneLine(word, 60)}`);
  try {
    return { response: await responseNamed(app, word) };
  } catch (thrown) {
    const other = toRotundaError(thrown).code === "not_found" ? await conversationById(app, word) : undefined;
    if (other) return { conversation: other };
    throw thrown;
  }
}

async function conversationNamed(app: App, word: string): Promise<Conversation | undefined> {
  const known = await app.store.conversation(word);
  if (known || !word.startsWith("conv_")) return known;
  return app.store.conversation(await app.engine.resolveId(word, "conversation"));
}

async function conversationById(app: App, part: string): Promise<Conversation | undefined> {
  const id = await app.engine.resolveId(part, "conversation").catch((thrown: unknown) => {
    if (toRotundaError(thrown).code === "not_found") return undefined;
    throw thrown;
  });
  return id === undefined ? undefined : app.store.conversation(id);
}

/** Where it stands. Throws `not_found` where nothing is left of it. */
export function headOf({ head, name, id }: Conversation): string {
  if (head !== null) return head;
  throw new RotundaError("not_found", `nothing is left of the conversation ${oneLine(name ?? id, 60)}`);
}
