/**
 * What a client of the Responses API says of earlier responses without naming one: references to items, and answers
 * to approvals in a history that it keeps itself.
 *
 * Invariant: nothing of another owner is found; how much is looked at for one request is bounded, whatever it names.
 */
import { setImmediate } from "node:timers/promises";
import type { Item } from "../../types/item.ts";
import type { ResponseNode } from "../../types/response.ts";
import { isId, timeOfId } from "../../util/ids.ts";
import { ownApproval, ownerFilter, ownNode } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import type { FindItem } from "./input-items.ts";
import type { CreateResponse } from "./responses-schemas.ts";

/** Responses that are looked at, and read, for the references of one request. */
const MOST_LISTED = 5_000;
const MOST_READ = 1_000;
const PAGE = 100;
/** Milliseconds by which clocks may differ, and between reading an input and making its response. */
const SLACK = 10_000;

/** Finds items on the path of the parent, and else among the asker's responses, the newest first. */
export function itemFinder(context: RequestContext, parent: ResponseNode | undefined): FindItem {
  let above: Promise<Map<string, Item>> | undefined;
  const search = new Search(context);
  return async (id) => {
    above ??= itemsAbove(context, parent);
    return (await above).get(id) ?? search.find(id);
  };
}

async function itemsAbove({ app }: RequestContext, parent: ResponseNode | undefined): Promise<Map<string, Item>> {
  const path = parent ? await app.store.path(parent.id) : [];
  return new Map(path.flatMap(({ entries }) => entries.map(({ item }) => [item.id, item] as const)));
}

/**
 * Whoever sends outputs answers calls of the response that he goes on from, or above it, or that he sends along. Throws
 * `usage`: a model could make nothing of them.
 */
export async function checkOutputs(
  context: RequestContext,
  parent: ResponseNode | undefined,
  input: Item[],
  given: readonly InputItem[],
): Promise<void> {
  const open = new Set(input.flatMap((item) => (item.type === "function_call_output" ? [item.call_id] : [])));
  // Calls of types that only another vendor has are passed over, and their outputs are not.
  for (const one of open.size > 0 ? given : []) if (!isOutput(one)) open.delete(String(one.call_id));
  const answer = (items: readonly Item[]) => {
    for (const item of items) if (item.type === "function_call") open.delete(item.call_id);
  };
  answer(input);
  // Nearly always they are the parent's own.
  if (open.size > 0 && parent) answer((await context.app.store.get(parent.id))?.entries.map(({ item }) => item) ?? []);
  if (open.size > 0) answer([...(await itemsAbove(context, parent)).values()]);
  const [missing] = open;
  if (missing === undefined) return;
  const text = `No tool call found for function call output with call_id ${missing.slice(0, 80)}.`;
  throw new DoorError("usage", text, { param: "input", wireCode: "invalid_value" });
}

/** Items are in no index: an id says when it was made, and so which responses may hold it. */
class Search {
  readonly #context: RequestContext;
  readonly #listed: ResponseNode[] = [];
  readonly #items = new Map<string, Map<string, Item>>();
  #whole = false;

  constructor(context: RequestContext) {
    this.#context = context;
  }

  async find(id: string): Promise<Item | undefined> {
    const made = timeOfId(id);
    for (let at = 0; at < this.#listed.length || (await this.#more()); at++) {
      const node = this.#listed[at];
      if (!node || node.createdAt > made + SLACK || (node.endedAt ?? made) < made - SLACK) continue;
      const found = (await this.#itemsOf(node.id)).get(id);
      if (found) return found;
    }
    return undefined;
  }

  async #more(): Promise<boolean> {
    if (this.#whole || this.#listed.length >= MOST_LISTED) return false;
    await setImmediate();
    const last = this.#listed.at(-1)?.id;
    const filter = { ...ownerFilter(this.#context), limit: PAGE, ...(last !== undefined && { before: last }) };
    const page = await this.#context.app.store.list(filter);
    this.#listed.push(...page);
    this.#whole = page.length < PAGE;
    return page.length > 0;
  }

  async #itemsOf(id: string): Promise<Map<string, Item>> {
    const known = this.#items.get(id);
    if (known) return known;
    if (this.#items.size >= MOST_READ) return new Map();
    if (this.#items.size % 10 === 9) await setImmediate();
    const entries = (await this.#context.app.store.get(id))?.entries ?? [];
    const items = new Map(entries.map(({ item }) => [item.id, item]));
    this.#items.set(id, items);
    return items;
  }
}

type InputItem = Extract<CreateResponse["input"], unknown[]>[number];

const isOutput = ({ type }: InputItem) => type === undefined || String(type).endsWith("_output");
const isAnswer = ({ type }: InputItem) => type === "mcp_approval_response";

/** Something that a model made, which a client sends along as history. */
function isMade({ type, role, id }: InputItem): boolean {
  if (type === "item_reference") return !String(id).startsWith("mcpr_");
  if (type === undefined || type === "message") return role === "assistant";
  return type === "reasoning" || type === "mcp_call" || type === "function_call" || type === "custom_tool_call";
}

/**
 * Clients that keep the history themselves send answers to approvals at its end: such an answer says which response
 * it goes on from. Answers further up have had their effect, and are history. Throws `not_found`.
 */
export async function placeAnswers(context: RequestContext, body: CreateResponse): Promise<CreateResponse> {
  const { input, previous_response_id: previous, conversation } = body;
  if (previous || conversation || !Array.isArray(input) || !input.some(isAnswer)) return body;
  const made = input.findLastIndex(isMade);
  const first = input.findIndex((item, index) => index > made && isAnswer(item));
  const answer = input[first];
  if (!answer) return { ...body, input: input.filter((item) => !isAnswer(item)) };
  const id = answer.approval_request_id;
  // What is wrong with it is said where items are read.
  if (typeof id !== "string" || !isId(id)) return body;
  const { responseId } = await ownApproval(context, id);
  const { id: previous_response_id } = await ownNode(context, responseId);
  const fresh = input.slice(first).filter(({ type }) => type !== "item_reference" && type !== "mcp_approval_request");
  return { ...body, previous_response_id, input: fresh };
}
