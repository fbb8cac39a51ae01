/**
 * Chat messages: the `messages` of a chat completion become our items.
 *
 * Invariant: every message counts, in its order; one that cannot be understood is an error that names its place.
 */
import type { FunctionCallItem, Item } from "../../types/item.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import { textOfPart } from "../../util/content-text.ts";
import { newId } from "../../util/ids.ts";
import { customArguments } from "./custom-tools.ts";
import { DoorError } from "./errors.ts";
import { InputList, message, readContent } from "./input-items.ts";

function wrong(param: string, text: string): DoorError {
  return new DoorError("usage", `Invalid value for '${param}': ${text}.`, { param, wireCode: "invalid_value" });
}

/** Throws `usage` with the place as `param`. */
export function readMessages(messages: readonly Record<string, unknown>[]): Item[] {
  const legacy: LegacyCalls = { ids: new Map(), count: 0 };
  const items = new InputList();
  for (const [index, raw] of (messages as readonly JsonObject[]).entries()) {
    const param = `messages[${index}]`;
    for (const item of readOne(raw, param, legacy))
      items.add(item, item.type === "function_call_output" ? raw.content : undefined, `${param}.content`);
  }
  return items.end();
}

/** Calls in the words that `tool_calls` replaced have no ids: a result belongs to the last call of its name. */
interface LegacyCalls {
  ids: Map<string, string>;
  count: number;
}

function readOne(raw: JsonObject, param: string, legacy: LegacyCalls): Item[] {
  const { role } = raw;
  switch (role) {
    case "system":
    case "developer":
    case "user":
      if (raw.content === undefined || raw.content === null) throw wrong(`${param}.content`, "it is missing");
      return [message(role, readContent(raw.content, false, `${param}.content`))];
    case "assistant":
      return readAssistant(raw, param, legacy);
    case "tool":
      return [readToolResult(raw, raw.tool_call_id, `${param}.tool_call_id`, param)];
    case "function":
      return [
        readToolResult(
          raw,
          (typeof raw.name === "string" ? legacy.ids.get(raw.name) : undefined) ?? raw.name,
          `${param}.name`,
          param,
        ),
      ];
    default:
      throw wrong(`${param}.role`, "it can be system, developer, user, assistant or tool");
  }
}

function readAssistant(raw: JsonObject, param: string, legacy: LegacyCalls): Item[] {
  const items: Item[] = [];
  const { reasoning_content: reasoning } = raw;
  if (typeof reasoning === "string" && reasoning !== "") {
    const content = [{ type: "reasoning_text" as const, text: reasoning }];
    items.push({ type: "reasoning", id: newId("rs"), status: "completed", summary: [], content });
  }
  const said = raw.content ?? "";
  if (said !== "") items.push(message("assistant", readContent(said, true, `${param}.content`)));
  const calls = raw.tool_calls ?? [];
  if (!Array.isArray(calls)) throw wrong(`${param}.tool_calls`, "it must be a list");
  for (const [index, call] of calls.entries()) items.push(readCall(call, `${param}.tool_calls[${index}]`));
  if (raw.function_call) items.push(readLegacyCall(raw.function_call, `${param}.function_call`, legacy));
  // An empty answer is an answer all the same.
  if (items.length === 0) items.push(message("assistant", [{ type: "output_text", text: "", annotations: [] }]));
  return items;
}

function readCall(call: Json, param: string): Item {
  const given = asObject(call, param);
  const custom = given.type === "custom";
  const called = asObject(
    (custom ? given.custom : given.function) ?? null,
    `${param}.${custom ? "custom" : "function"}`,
  );
  if (typeof given.id !== "string") throw wrong(`${param}.id`, "it is missing");
  if (!custom) return callItem(called, given.id, `${param}.function`);
  return { ...callItem({ ...called, arguments: customArguments(called.input) }, given.id, `${param}.custom`), custom };
}

function readLegacyCall(call: Json, param: string, legacy: LegacyCalls): Item {
  const id = `call_${legacy.count++}`;
  const item = callItem(asObject(call, param), id, param);
  legacy.ids.set(item.name, id);
  return item;
}

function callItem({ name, arguments: written = "" }: JsonObject, call_id: string, param: string): FunctionCallItem {
  if (typeof name !== "string" || name === "") throw wrong(`${param}.name`, "it is missing");
  const text = typeof written === "string" ? written : JSON.stringify(written);
  return { type: "function_call", id: newId("fc"), call_id, name, arguments: text, status: "completed" };
}

function readToolResult(raw: JsonObject, id: Json | undefined, place: string, param: string): Item {
  if (typeof id !== "string") throw wrong(place, "it is missing");
  const parts = readContent(raw.content ?? "", false, `${param}.content`);
  const output = parts.map(textOfPart).join("\n");
  return { type: "function_call_output", id: newId("fco"), call_id: id, output, status: "completed" };
}

function asObject(value: Json, param: string): JsonObject {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw wrong(param, "an object is needed here");
}

/** What follows the last answer: with a conversation, everything before it is known already. */
export function newMessages(messages: readonly Record<string, unknown>[]): readonly Record<string, unknown>[] {
  const last = messages.findLastIndex((one) => one.role === "assistant");
  return messages.slice(last + 1);
}
