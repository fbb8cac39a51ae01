/**
 * The history of a conversation as chat-completions messages.
 *
 * Invariant: what comes out is accepted by the strictest endpoints, whatever the items are: one system message
 * in front, users merged, every tool call answered, in call order, by unique ids of safe characters, with
 * arguments that parse. An ended node is serialised once for each model: its text is kept by the identity of
 * its entries, so the cost of a turn does not grow with the turns before it.
 */
import type { Entry, InputFile, InputImage, Item, McpCallItem, MessageItem } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import type { HistoryNode } from "../types/model.ts";
import { BESIDE, textOfFile, textOfPart } from "../util/content-text.ts";
import { jsonDepth, MAX_DEPTH } from "../util/limits.ts";
import { flatName } from "../util/text.ts";

/** How an endpoint wants its own reasoning back: as it was given, never, or on every turn with calls. */
export type ReasoningBack = "own" | "none" | "always";

export interface HistoryOptions {
  /** `Model.key`: provider-bound data of other models stays behind. */
  key: string;
  reasoningBack: ReasoningBack;
  /** Call ids of exactly nine letters and digits (Mistral). */
  shortCallIds: boolean;
  /** Images of tool results are told, in a user message behind the results: no endpoint takes them inside. */
  toolImages: boolean;
}

export interface RenderedHistory {
  /** System and developer messages that stood before everything else. */
  system: string;
  /** JSON of the messages, joined by commas; may be empty. */
  messages: string;
}

interface OpenCall {
  id: string;
  /** The client's id of a call that the client answers; null for ours. */
  clientId: string | null;
  /** JSON of the output; null: not known yet. */
  output: string | null;
  images: readonly InputImage[];
}

interface UserPart {
  type: "text" | "json";
  /** Text, or the JSON of a part that is none. */
  value: string;
}

/** What a node adds after the nodes before it, and what it leaves open for the next. */
interface Fragment {
  previous: Fragment | null;
  messages: string;
  system: string;
  /** Something other than a system message has come. */
  started: boolean;
  user: UserPart[];
  calls: OpenCall[];
  /** Ids that this node's calls go by. */
  ownIds: string[];
  /** Ids of the whole path; handed on to the next fragment, so only the newest has it. */
  pathIds: Set<string> | null;
}

const validId = /^[A-Za-z0-9_-]{1,64}$/;

export class HistoryRenderer {
  readonly #options: HistoryOptions;
  readonly #fragments = new WeakMap<readonly Entry[], Fragment>();

  constructor(options: HistoryOptions) {
    this.#options = options;
  }

  render(history: readonly HistoryNode[]): RenderedHistory {
    const texts: string[] = [];
    let last: Fragment | null = null;
    for (const node of history) {
      const known: Fragment | undefined = this.#fragments.get(node.entries);
      if (known && known.previous === last) last = known;
      else {
        const fragment: Fragment = this.#add(node, last);
        if (node.ended) this.#fragments.set(node.entries, fragment);
        last = fragment;
      }
      if (last.messages !== "") texts.push(last.messages);
    }
    const rest = last === null ? "" : closeFragment(last);
    if (rest !== "") texts.push(rest);
    return { system: last?.system ?? "", messages: texts.join(",") };
  }

  #add(node: HistoryNode, previous: Fragment | null): Fragment {
    const taken = previous === null ? new Set<string>() : pathIds(previous);
    const builder = new FragmentBuilder(this.#options, previous, taken, node.ended);
    for (const entry of node.entries) builder.add(entry);
    const fragment = builder.end();
    if (node.ended) {
      for (const id of fragment.ownIds) taken.add(id);
      fragment.pathIds = taken;
      if (previous) previous.pathIds = null;
    }
    return fragment;
  }
}

function pathIds(fragment: Fragment): Set<string> {
  if (fragment.pathIds === null) {
    const ids = new Set<string>();
    for (let at: Fragment | null = fragment; at !== null; at = at.previous) for (const id of at.ownIds) ids.add(id);
    fragment.pathIds = ids;
  }
  return fragment.pathIds;
}

/** What is still open at the end of the history, closed. */
function closeFragment(fragment: Fragment): string {
  const calls = fragment.calls.map(renderOutput);
  const user = renderUser([...imagesOf(fragment.calls), ...fragment.user]);
  return (user === "" ? calls : [...calls, user]).join(",");
}

function renderOutput(call: OpenCall): string {
  return `{"role":"tool","tool_call_id":"${call.id}","content":${call.output ?? '"no output was given"'}}`;
}

function imagesOf(calls: readonly OpenCall[]): UserPart[] {
  const images = calls.flatMap((call) => call.images.map(imagePart));
  return images.length === 0 ? [] : [{ type: "text", value: BESIDE }, ...images];
}

function imagePart({ image_url: url, detail }: InputImage): UserPart {
  const image = { url, ...(detail ? { detail } : {}) };
  return { type: "json", value: JSON.stringify({ type: "image_url", image_url: image }) };
}

function renderUser(parts: UserPart[]): string {
  if (parts.length === 0) return "";
  if (parts.every((part) => part.type === "text"))
    return `{"role":"user","content":${JSON.stringify(parts.map((part) => part.value).join("\n\n"))}}`;
  const list = parts.map((part) =>
    part.type === "json" ? part.value : `{"type":"text","text":${JSON.stringify(part.value)}}`,
  );
  return `{"role":"user","content":[${list.join(",")}]}`;
}

/** One assistant turn while its entries come. */
interface Group {
  side: Entry["side"];
  turn: number;
  texts: string[];
  reasoning: string;
  calls: Entry[];
  raw: JsonObject | null;
  /** A message that was cut off before the model call had finished, in a response that runs again. */
  cut: boolean;
}

class FragmentBuilder {
  readonly #options: HistoryOptions;
  readonly #previous: Fragment | null;
  readonly #taken: ReadonlySet<string>;
  readonly #ended: boolean;
  readonly #messages: string[] = [];
  readonly #ownIds: string[] = [];
  #system: string;
  #started: boolean;
  #user: UserPart[];
  #calls: OpenCall[];
  #group: Group | null = null;

  constructor(options: HistoryOptions, previous: Fragment | null, taken: ReadonlySet<string>, ended: boolean) {
    this.#options = options;
    this.#previous = previous;
    this.#taken = taken;
    this.#ended = ended;
    this.#system = previous?.system ?? "";
    this.#started = previous?.started ?? false;
    this.#user = previous ? [...previous.user] : [];
    this.#calls = previous ? previous.calls.map((call) => ({ ...call })) : [];
  }

  add(entry: Entry): void {
    const { item } = entry;
    if (item.type === "message") {
      if (item.role === "assistant") this.#groupOf(entry).texts.push(textOf(item));
      else this.#addMessage(item);
    } else if (item.type === "reasoning") {
      this.#groupOf(entry).reasoning += item.content.map((part) => part.text).join("");
    } else if (item.type === "mcp_call" || item.type === "function_call") this.#groupOf(entry).calls.push(entry);
    else if (item.type === "function_call_output") this.#addOutput(item.call_id, item.output);
    else if (item.type === "compaction") this.#addUserText(`Summary of the conversation so far:\n\n${item.summary}`);
  }

  end(): Fragment {
    this.#endGroup();
    if (this.#calls.every((call) => call.output !== null)) this.#endCalls();
    return {
      previous: this.#previous,
      messages: this.#messages.join(","),
      system: this.#system,
      started: this.#started,
      user: this.#user,
      calls: this.#calls,
      ownIds: this.#ownIds,
      pathIds: null,
    };
  }

  #addMessage(item: MessageItem): void {
    const system = item.role !== "user";
    if (system && !this.#started) {
      const text = textOf(item);
      this.#system = this.#system === "" ? text : `${this.#system}\n\n${text}`;
    } else if (system) this.#addUserText(`<system>\n${textOf(item)}\n</system>`);
    else {
      this.#beginUser();
      for (const part of item.content) {
        if (part.type === "input_image") this.#user.push(imagePart(part));
        else if (part.type === "input_file") this.#pushFile(part);
        else this.#pushText(textOfPart(part));
      }
    }
  }

  #addUserText(text: string): void {
    this.#beginUser();
    this.#pushText(text);
  }

  /** What is text every model can read; the rest goes as a file, which only some endpoints take. */
  #pushFile(part: InputFile): void {
    const text = textOfFile(part);
    const { filename = "unnamed", file_data } = part;
    if (text !== undefined) this.#pushText(text);
    else this.#user.push({ type: "json", value: JSON.stringify({ type: "file", file: { filename, file_data } }) });
  }

  #pushText(value: string): void {
    if (value !== "") this.#user.push({ type: "text", value });
  }

  #beginUser(): void {
    this.#started = true;
    this.#endGroup();
    this.#endCalls();
  }

  #addOutput(clientId: string, output: string): void {
    this.#endGroup();
    const call = this.#calls.find((open) => open.clientId === clientId && open.output === null);
    if (call) call.output = JSON.stringify(output === "" ? "(no output)" : output);
    // Its call is not on this path; refusing the whole request would lose more.
    else this.#addUserText(`Output of the call ${clientId}:\n${output}`);
  }

  #groupOf(entry: Entry): Group {
    const { side, turn, meta, item } = entry;
    if (this.#group && (this.#group.side !== side || this.#group.turn !== turn)) this.#endGroup();
    this.#group ??= { side, turn, texts: [], reasoning: "", calls: [], raw: null, cut: false };
    const raw = ownData(meta.raw, meta.model, this.#options.key);
    if (raw) this.#group.raw = raw;
    const unfinished = item.type === "message" && item.status !== "completed" && meta.finish === undefined;
    this.#group.cut = unfinished && !this.#ended;
    return this.#group;
  }

  #endGroup(): void {
    const group = this.#group;
    this.#group = null;
    if (group === null) return;
    const text = group.texts.filter((piece) => piece !== "").join("\n");
    if (group.calls.length === 0 && (text === "" || group.cut)) return;
    this.#started = true;
    this.#endCalls();
    this.#endUser();
    const parts = [`{"role":"assistant","content":${text === "" ? "null" : JSON.stringify(text)}`];
    if (group.calls.length > 0) {
      const calls = group.calls.map((entry, number) => this.#renderCall(entry, number, group.raw));
      parts.push(`"tool_calls":[${calls.join(",")}]`);
    }
    parts.push(...this.#renderReasoning(group));
    this.#messages.push(`${parts.join(",")}}`);
  }

  #renderReasoning(group: Group): string[] {
    const { reasoningBack } = this.#options;
    if (reasoningBack === "none") return [];
    const parts: string[] = [];
    for (const [field, value] of Object.entries(group.raw ?? {}))
      if (field !== "call_fields") parts.push(`${JSON.stringify(field)}:${JSON.stringify(value)}`);
    if (reasoningBack === "always" && group.calls.length > 0 && group.raw?.reasoning_content === undefined)
      parts.push(`"reasoning_content":${JSON.stringify(group.reasoning)}`);
    return parts;
  }

  #renderCall(entry: Entry, number: number, raw: JsonObject | null): string {
    const item = entry.item as Extract<Item, { type: "mcp_call" | "function_call" }>;
    const clientId = item.type === "function_call" ? item.call_id : null;
    const id = this.#chooseId([entry.meta.callId, clientId, item.id]);
    this.#calls.push({
      id,
      clientId,
      output: item.type === "mcp_call" ? quote(item, outputOf(item)) : null,
      images: (this.#options.toolImages && entry.meta.images) || [],
    });
    const named = item.type === "function_call" && item.namespace ? flatName(item.namespace, item.name) : item.name;
    const name = (entry.meta.tool ?? named).replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "unknown";
    const given = (raw?.call_fields as JsonObject | undefined)?.[String(number)];
    const extra = this.#options.reasoningBack === "none" || !given ? "" : `,${JSON.stringify(given).slice(1, -1)}`;
    return `{"id":"${id}","type":"function","function":{"name":"${name}","arguments":${JSON.stringify(safeArguments(item.arguments))}}${extra}}`;
  }

  #chooseId(candidates: (string | null | undefined)[]): string {
    const wanted = this.#options.shortCallIds ? /^[A-Za-z0-9]{9}$/ : validId;
    const free = (id: string) => !this.#taken.has(id) && !this.#ownIds.includes(id);
    let id = candidates.find((candidate) => typeof candidate === "string" && wanted.test(candidate) && free(candidate));
    const seed = candidates.at(-1) ?? "";
    for (let number = 0; !id; number++) {
      const made = shortId(`${seed}${number}`);
      if (free(made)) id = made;
    }
    this.#ownIds.push(id);
    return id;
  }

  #endUser(): void {
    const user = renderUser(this.#user);
    if (user !== "") this.#messages.push(user);
    this.#user = [];
  }

  #endCalls(): void {
    for (const call of this.#calls) this.#messages.push(renderOutput(call));
    this.#user.push(...imagesOf(this.#calls));
    this.#calls = [];
  }
}

/** Provider-bound data, if this model made it. A fallback's answer says itself whose it is. */
function ownData(raw: unknown, model: string | undefined, key: string): JsonObject | null {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) return null;
  const data = raw as JsonObject;
  if (typeof data.from === "string") return data.from === key ? (data.raw as JsonObject) : null;
  return model === key ? data : null;
}

function textOf(item: MessageItem): string {
  return item.content.map(textOfPart).join("\n");
}

function outputOf(item: McpCallItem): string {
  return item.output || item.error || (item.output === "" ? "(no output)" : "interrupted, outcome unknown");
}

const quoted = new WeakMap<object, { text: string; json: string }>();

/** JSON of an item's long text, kept while the item lives: a running response renders it with every model call. */
function quote(item: object, text: string): string {
  if (text.length < 256) return JSON.stringify(text);
  const known = quoted.get(item);
  if (known?.text === text) return known.json;
  const json = JSON.stringify(text);
  quoted.set(item, { text, json });
  return json;
}

/**
 * Arguments as every endpoint takes them back: JSON text of an object. Anything else becomes `{}`: chat
 * templates parse the text and fail on bad JSON, and the tool message beside it quotes what was wrong.
 */
export function safeArguments(text: string): string {
  if (!/^\s*\{/.test(text) || jsonDepth(text) > MAX_DEPTH) return "{}";
  try {
    JSON.parse(text);
    return text;
  } catch {
    return "{}";
  }
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Nine letters and digits out of any text (two FNV-1a hashes). */
function shortId(seed: string): string {
  let first = 0x811c9dc5;
  let second = 0x01000193;
  for (let at = 0; at < seed.length; at++) {
    first = Math.imul(first ^ seed.charCodeAt(at), 0x01000193) >>> 0;
    second = Math.imul(second ^ seed.charCodeAt(seed.length - 1 - at), 0x01000193) >>> 0;
  }
  let number = BigInt(first) * 0x100000000n + BigInt(second);
  let id = "";
  for (let at = 0; at < 9; at++) {
    id += letters[Number(number % 62n)];
    number /= 62n;
  }
  return id;
}
