/** Lookup: a response whole, and ids by a part of them. Invariant: what was deleted is as unknown as what never was. */
import { RotundaError } from "../types/error.ts";
import type { Entry } from "../types/item.ts";
import type { FullResponse, ResponseNode, Status } from "../types/response.ts";
import type { IdKind, Store } from "../types/store.ts";
import { isId, isIdPart } from "../util/ids.ts";
import { oneLine } from "../util/text.ts";
import { finishedTurns } from "./next.ts";

export async function existingNode(store: Store, id: string): Promise<ResponseNode> {
  const node = await store.node(id);
  if (!node) throw new RotundaError("not_found", `there is no response ${id}`);
  return node;
}

export function hasEnded(id: string, status?: Status): RotundaError {
  return new RotundaError("response_ended", `response ${id} has already ended${status ? ` (${status})` : ""}`);
}

export async function fullResponse(store: Store, id: string): Promise<FullResponse> {
  const stored = await store.get(id);
  if (!stored) throw new RotundaError("not_found", `there is no response ${id}`);
  const items = (side: Entry["side"]) => stored.entries.filter((entry) => entry.side === side).map(({ item }) => item);
  return { ...stored.node, input: items("input"), output: items("output"), turns: finishedTurns(stored.entries) };
}

export async function resolveId(store: Store, part: string, kind: IdKind): Promise<string> {
  if (isId(part)) return part;
  if (!isIdPart(part)) {
    throw new RotundaError("invalid_id", `"${oneLine(part, 40)}" is not an id, nor four or more characters of one`);
  }
  const found = await store.resolve(part, [kind]);
  const [id] = found;
  if (id === undefined) throw new RotundaError("not_found", `no ${kind} has an id that begins or ends with ${part}`);
  if (found.length > 1) throw new RotundaError("ambiguous_id", `${part} fits several: ${found.join(", ")}`);
  return id;
}
