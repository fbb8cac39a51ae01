/**
 * Tools of a request, and which of them may or must be called.
 *
 * Invariant: tools of types that only another vendor has are passed over, but whoever forces one of them is told
 * that there is none; `allowed_tools` is enforced: what it does not name is not even offered.
 */
import type { JsonSchema } from "../../types/json.ts";
import type { ClientTool, RunSettings } from "../../types/response.ts";
import type { Tool } from "../../types/tool.ts";
import { flatName } from "../../util/text.ts";
import { customTool } from "./custom-tools.ts";
import { DoorError } from "./errors.ts";

export function wrong(param: string, text: string): DoorError {
  return new DoorError("usage", text, { param, wireCode: "invalid_value" });
}

type Given = Record<string, unknown>;

/** Functions and custom tools, nested ones flattened; and whether there were any of another type than `function`. */
export function toolsOf(tools: readonly Given[]): { clientTools: ClientTool[]; others: boolean } {
  const clientTools: ClientTool[] = [];
  for (const [index, tool] of tools.entries()) {
    const param = `tools[${index}]`;
    if (tool.type === "function" || tool.type === "custom") clientTools.push(clientTool(tool, tool, param));
    else if (tool.type === "namespace") clientTools.push(...nestedTools(tool, param));
  }
  checkNames(clientTools);
  return { clientTools, others: tools.some(({ type }) => type !== "function") };
}

/** Throws `usage` where two have one name. */
export function checkNames(clientTools: readonly ClientTool[]): void {
  const names = new Set(clientTools.map(({ name }) => name));
  if (names.size < clientTools.length) throw wrong("tools", "Two function tools have the same name.");
}

/** `called` has the fields of the tool; in chat completions they are nested. Throws `usage`. */
export function clientTool({ type }: Given, called: Given, param: string): ClientTool {
  const { name, description, parameters, strict } = called;
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name))
    throw wrong(`${param}.name`, "A function's name is 1 to 64 letters, digits, _ and -.");
  if (type === "custom") return customTool(name, called);
  const schema = parameters ?? undefined;
  if (schema !== undefined && (typeof schema !== "object" || Array.isArray(schema)))
    throw wrong(`${param}.parameters`, "A function's parameters are a JSON schema.");
  return {
    name,
    ...(typeof description === "string" && { description }),
    ...(schema !== undefined && { parameters: schema as JsonSchema }),
    ...(strict === true && { strict }),
  };
}

function nestedTools(tool: Given, param: string): ClientTool[] {
  const namespace = tool.name;
  if (typeof namespace !== "string" || !Array.isArray(tool.tools)) return [];
  return tool.tools.flatMap((nested: Given, index): ClientTool[] => {
    if (typeof nested !== "object" || nested === null) return [];
    if (nested.type !== "function" && nested.type !== "custom") return [];
    const made = clientTool(nested, nested, `${param}.tools[${index}]`);
    return [{ ...made, name: flatName(namespace, made.name), wire: { ...made.wire, namespace, name: made.name } }];
  });
}

/** `choice` in the form of the Responses API; `served` are the engine's tools. Throws `usage`. */
export function applyToolChoice(settings: RunSettings, choice: unknown, served: readonly Tool[]): void {
  if (choice === undefined || choice === null || choice === "auto") return;
  if (choice === "none" || choice === "required") {
    settings.toolChoice = choice;
    // "none" forbids the client's tools as well as ours.
    if (choice === "none") delete settings.clientTools;
    return;
  }
  if (typeof choice !== "object") throw wrong("tool_choice", "It can be none, auto, required, or an object.");
  const wanted = choice as Given;
  if (wanted.type === "allowed_tools") allowOnly(settings, wanted, served);
  else if (wanted.type === "mcp") forceServer(settings, wanted, served);
  else if (wanted.type === "function" || wanted.type === "custom") forceTool(settings, wanted, served);
  else throw wrong("tool_choice", `There is no tool of type ${quoted(wanted.type)} here.`);
}

function forceTool(settings: RunSettings, { type, name }: Given, served: readonly Tool[]): void {
  if (typeof name !== "string") throw wrong("tool_choice.name", "The name of a function is needed.");
  const known = settings.clientTools?.find((tool) => tool.name === name || tool.wire?.name === name);
  if (!known && (type === "custom" || !served.some((tool) => tool.name === name)))
    throw wrong("tool_choice", `There is no tool ${quoted(name)}.`);
  settings.toolChoice = { name: known?.name ?? name };
}

/** Names of the engine's tools that a `server_label`, with or without a `name`, speaks of. */
function namesAt({ server_label: label, name }: Given, served: readonly Tool[]): string[] {
  const found = served.filter(
    (tool) => tool.server === label && (typeof name !== "string" || name === tool.serverName || name === tool.name),
  );
  return found.map((tool) => tool.name);
}

function forceServer(settings: RunSettings, choice: Given, served: readonly Tool[]): void {
  const names = namesAt(choice, served);
  const [only] = names;
  if (only === undefined) throw wrong("tool_choice", `There is no such tool of server ${quoted(choice.server_label)}.`);
  if (names.length === 1) {
    settings.toolChoice = { name: only };
    return;
  }
  settings.toolChoice = "required";
  settings.toolFilters = [names];
  delete settings.clientTools;
}

function allowOnly(settings: RunSettings, choice: Given, served: readonly Tool[]): void {
  const tools = objectsOf(choice.tools);
  const names = tools.flatMap((tool) => {
    if (tool.type === "mcp") return namesAt(tool, served);
    return typeof tool.name === "string" ? [tool.name] : [];
  });
  const kept = (settings.clientTools ?? []).filter(
    ({ name, wire }) => names.includes(name) || names.includes(wire?.name ?? ""),
  );
  if (kept.length > 0) settings.clientTools = kept;
  else delete settings.clientTools;
  settings.toolFilters = [names];
  if (choice.mode === "required") settings.toolChoice = "required";
}

/** The objects of what should be a list of them. */
export function objectsOf(list: unknown): Given[] {
  if (!Array.isArray(list)) return [];
  return list.filter((one: unknown): one is Given => typeof one === "object" && one !== null);
}

function quoted(value: unknown): string {
  return JSON.stringify(typeof value === "string" ? value.slice(0, 80) : null);
}
