/**
 * Input items: what a client of the Responses API sends becomes our items.
 *
 * Invariant: what cannot be understood is an error that names its place; what only another vendor's machine could
 * make use of (its tool calls, its references) is passed over, so that no client's own history breaks its request.
 */
import type { ContentPart, Item, ItemStatus, McpCallItem, MessageItem } from "../../types/item.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import { BESIDE, textOfPart } from "../../util/content-text.ts";
import { isId, newId } from "../../util/ids.ts";
import { customArguments } from "./custom-tools.ts";
import { DoorError } from "./errors.ts";

/** Finds an item that was made here before; undefined where the asker has none of that id. */
export type FindItem = (id: string) => Promise<Item | undefined>;

/** A text is one user message. Throws `usage` with the place as `param`. */
export async function readInput(input: unknown, find: FindItem, param = "input"): Promise<Item[]> {
  if (typeof input === "string") return [message("user", [{ type: "input_text", text: input }])];
  if (!Array.isArray(input)) throw wrong(param, "it must be a text or a list of items");
  const items = new InputList();
  for (const [index, raw] of input.entries()) {
    const at = `${param}[${index}]`;
    const item = await readItem(raw as JsonObject, find, at);
    if (item) items.add(item, item.type === "function_call_output" ? raw.output : undefined, `${at}.output`);
  }
  return items.end();
}

/**
 * Items in their order. What a client's tool gave beside text (a screenshot) endpoints take from a user only: it stands
 * in a message of its own behind all the results that come together.
 */
export class InputList {
  readonly #items: Item[] = [];
  #beside: ContentPart[] = [];

  /** `output`: of a tool's result, as the client wrote it. */
  add(item: Item, output: Json | undefined, param: string): void {
    if (item.type !== "function_call_output") this.#endResults();
    this.#items.push(item);
    if (!Array.isArray(output)) return;
    const parts = readContent(output, false, param);
    this.#beside.push(...parts.filter(({ type }) => type === "input_image" || type === "input_file"));
  }

  end(): Item[] {
    this.#endResults();
    return this.#items;
  }

  #endResults(): void {
    if (this.#beside.length === 0) return;
    this.#items.push(message("user", [{ type: "input_text", text: BESIDE }, ...this.#beside]));
    this.#beside = [];
  }
}

export function message(role: MessageItem["role"], content: ContentPart[]): MessageItem {
  return { type: "message", id: newId("msg"), role, status: "completed", content };
}

function wrong(param: string, what: string): DoorError {
  return new DoorError("usage", `Invalid value for '${param}': ${what}.`, { param, wireCode: "invalid_value" });
}

function text(raw: JsonObject, key: string, param: string): string {
  const value = raw[key];
  if (typeof value !== "string") throw wrong(`${param}.${key}`, "a text is needed here");
  return value;
}

async function readItem(raw: JsonObject, find: FindItem, param: string): Promise<Item | undefined> {
  const type = typeof raw.type === "string" ? raw.type : "role" in raw ? "message" : "item_reference";
  switch (type) {
    case "message":
      return readMessage(raw, param);
    case "function_call":
    case "custom_tool_call":
      return readCall(raw, type, param);
    case "function_call_output":
    case "custom_tool_call_output":
      return {
        type: "function_call_output",
        id: newId("fco"),
        call_id: text(raw, "call_id", param),
        ...(type === "custom_tool_call_output" && { custom: true as const }),
        output: outputText(raw.output ?? "", `${param}.output`),
        status: "completed",
      };
    case "mcp_approval_response":
      return readAnswer(raw, param);
    case "mcp_call":
      return readMcpCall(raw, param);
    case "reasoning":
      return readReasoning(raw);
    case "compaction":
      return { type: "compaction", id: newId("cmp"), summary: summaryOf(raw, param) };
    case "item_reference":
      return readReference(raw, find, param);
    default:
      return undefined;
  }
}

function readMessage(raw: JsonObject, param: string): MessageItem {
  const role = text(raw, "role", param);
  if (role !== "user" && role !== "assistant" && role !== "system" && role !== "developer") {
    throw wrong(`${param}.role`, "it can be user, assistant, system or developer");
  }
  const status: ItemStatus = raw.status === "incomplete" ? "incomplete" : "completed";
  const read = { ...message(role, readContent(raw.content ?? "", role === "assistant", `${param}.content`)), status };
  const { phase } = raw;
  return role === "assistant" && (phase === "commentary" || phase === "final_answer") ? { ...read, phase } : read;
}

/** Parts in OpenAI's two spellings (`input_text`, `text`). Throws `usage`. */
export function readContent(content: Json, assistant: boolean, param: string): ContentPart[] {
  const textPart = (value: string): ContentPart =>
    assistant ? { type: "output_text", text: value, annotations: [] } : { type: "input_text", text: value };
  if (typeof content === "string") return [textPart(content)];
  if (!Array.isArray(content)) throw wrong(param, "it must be a text or a list of parts");
  return content.map((part, index): ContentPart => {
    const at = `${param}[${index}]`;
    if (typeof part !== "object" || part === null || Array.isArray(part)) throw wrong(at, "it must be an object");
    if (part.type === "refusal") return { type: "refusal", refusal: text(part, "refusal", at) };
    if (part.type === "input_image" || part.type === "image_url") return readImage(part, at);
    if (part.type === "input_file" || part.type === "file") return readFile(part, at);
    if (part.type === "input_text" || part.type === "output_text" || part.type === "text")
      return textPart(text(part, "text", at));
    throw wrong(`${at}.type`, `parts of type ${JSON.stringify(part.type ?? null).slice(0, 60)} are not understood`);
  });
}

function readImage(part: JsonObject, param: string): ContentPart {
  const given = part.image_url;
  const nested = typeof given === "object" && given !== null && !Array.isArray(given) ? given : undefined;
  const url = nested ? nested.url : given;
  if (typeof url !== "string" || !/^(?:https?:\/\/|data:image\/)/i.test(url)) {
    throw wrong(`${param}.image_url`, "an http(s) or data: address of an image is needed");
  }
  const detail = nested?.detail ?? part.detail;
  return {
    type: "input_image",
    image_url: url,
    ...((detail === "auto" || detail === "low" || detail === "high") && { detail }),
  };
}

const DATA = /^data:[\w.+-]+\/[\w.+-]+(?:;[\w=."-]+)*;base64,/;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;
/** Characters at either end that are looked at: all of them would hold the event loop. */
const LOOKED_AT = 4_096;

function isBase64(data: string): boolean {
  const bytes = data.slice(DATA.exec(data.slice(0, LOOKED_AT))?.[0].length ?? 0);
  return /^[A-Za-z0-9+/_-]*$/.test(bytes.slice(0, -2).slice(0, LOOKED_AT)) && BASE64.test(bytes.slice(-LOOKED_AT));
}

/** OpenAI's two spellings: flat, and with the parts in `file`. What would have to be fetched or is kept elsewhere is refused. */
function readFile(part: JsonObject, param: string): ContentPart {
  const nested = part.file;
  const isNested = typeof nested === "object" && nested !== null && !Array.isArray(nested);
  const { filename, file_data: data } = isNested ? nested : part;
  const at = isNested ? `${param}.file` : param;
  if (typeof data !== "string" || data === "") {
    throw wrong(
      `${at}.file_data`,
      "a file comes with its bytes in base64: none is kept here (file_id) or fetched (file_url)",
    );
  }
  if (!isBase64(data)) throw wrong(`${at}.file_data`, "it must be base64, or a data: address with base64");
  return {
    type: "input_file",
    ...(typeof filename === "string" && filename !== "" && { filename: filename.slice(0, 255).toWellFormed() }),
    file_data: data.startsWith("data:") ? data : `data:application/octet-stream;base64,${data}`,
  };
}

function readCall(raw: JsonObject, type: string, param: string): Item {
  const custom = type === "custom_tool_call";
  const written = custom ? customArguments(raw.input) : text(raw, "arguments", param);
  return {
    type: "function_call",
    id: newId("fc"),
    call_id: text(raw, "call_id", param),
    name: text(raw, "name", param),
    ...(typeof raw.namespace === "string" && raw.namespace !== "" && { namespace: raw.namespace }),
    ...(custom && { custom }),
    arguments: written,
    status: "completed",
  };
}

/** Outputs may be a text or parts; of what is no text its place is kept here. */
function outputText(output: Json, param: string): string {
  if (typeof output === "string") return output;
  if (!Array.isArray(output)) return JSON.stringify(output);
  return readContent(output, false, param).map(textOfPart).join("\n");
}

function readAnswer(raw: JsonObject, param: string): Item {
  const id = text(raw, "approval_request_id", param);
  if (typeof raw.approve !== "boolean") throw wrong(`${param}.approve`, "true or false is needed here");
  if (!isId(id)) throw new DoorError("not_found", `there is no approval ${id.slice(0, 80)}`, { param });
  const reason = typeof raw.reason === "string" ? raw.reason : null;
  return { type: "mcp_approval_response", id: newId("mcpa"), approval_request_id: id, approve: raw.approve, reason };
}

/** A call that was carried out before, here or elsewhere: for the model's memory only, it never runs again. */
function readMcpCall(raw: JsonObject, param: string): McpCallItem {
  const output = typeof raw.output === "string" ? raw.output : null;
  const failed = raw.error !== undefined && raw.error !== null;
  return {
    type: "mcp_call",
    id: newId("mcp"),
    server_label: typeof raw.server_label === "string" ? raw.server_label : "",
    name: text(raw, "name", param),
    arguments: text(raw, "arguments", param),
    status: failed ? "failed" : output === null ? "incomplete" : "completed",
    output,
    error: failed ? errorText(raw.error ?? null) : null,
    approval_request_id: null,
  };
}

function errorText(error: Json): string {
  if (typeof error === "string") return error;
  return JSON.stringify(error).slice(0, 2_000);
}

/** The whole text, of whatever of the three fields has it. Sealed text of another vendor says nothing to us. */
function readReasoning(raw: JsonObject): Item {
  const said = textsOf(raw.content);
  const sealed = typeof raw.encrypted_content === "string" ? unseal(raw.encrypted_content) : undefined;
  const texts = said.length > 0 ? said : sealed !== undefined ? [sealed] : textsOf(raw.summary);
  const content = texts.map((value) => ({ type: "reasoning_text" as const, text: value }));
  return { type: "reasoning", id: newId("rs"), status: "completed", summary: [], content };
}

function textsOf(parts: Json | undefined): string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap((part) => {
    const value = typeof part === "object" && part !== null && !Array.isArray(part) ? part.text : undefined;
    return typeof value === "string" ? [value] : [];
  });
}

const SEAL = "rotunda:";

/** A summary or reasoning as the opaque text that clients carry around. It hides nothing: they may read it. */
export function seal(said: string): string {
  return Buffer.from(`${SEAL}${said}`).toString("base64");
}

/** Undefined: it was not made here. */
function unseal(sealed: string): string | undefined {
  const opened = Buffer.from(sealed, "base64").toString();
  return opened.startsWith(SEAL) ? opened.slice(SEAL.length) : undefined;
}

function summaryOf(raw: JsonObject, param: string): string {
  if (typeof raw.summary === "string") return raw.summary;
  const opened = unseal(text(raw, "encrypted_content", param));
  if (opened === undefined) throw wrong(`${param}.encrypted_content`, "it was not made here");
  return opened;
}

async function readReference(raw: JsonObject, find: FindItem, param: string): Promise<Item> {
  const id = text(raw, "id", param);
  const found = isId(id) ? await find(id) : undefined;
  if (!found) throw new DoorError("not_found", `there is no item ${id.slice(0, 80)}`, { param: `${param}.id` });
  return found;
}
