/**
 * What is wrong with a request to a model endpoint.
 *
 * Invariant: stricter than any real endpoint: what one of them would refuse is refused.
 */
import type { JsonObject } from "../types/json.ts";

const roles = new Set(["system", "developer", "user", "assistant", "tool"]);
const safeName = /^[A-Za-z0-9_-]{1,64}$/;

/** Why a chat-completions body is unacceptable, or null. */
export function findProblem(body: JsonObject): string | null {
  if (typeof body.model !== "string" || body.model === "") return "you must provide a model parameter";
  if (!Array.isArray(body.messages) || body.messages.length === 0) return "messages must be a non-empty array";
  const seen = new Set<string>();
  let open: Set<string> = new Set();
  let previousRole = "";
  for (const [index, message] of (body.messages as JsonObject[]).entries()) {
    const role = String(message.role);
    let problem: string | null = null;
    if (role === "tool") {
      if (!open.delete(String(message.tool_call_id))) problem = "a tool message needs a preceding tool call";
      else if (typeof message.content !== "string") problem = "content of a tool message must be a string";
    } else if (open.size > 0) problem = `tool_calls must be followed by tool messages; missing ${[...open].join(", ")}`;
    else if (!roles.has(role)) problem = `unknown role ${role}`;
    else if ((role === "system" || role === "developer") && index > 0) problem = `a ${role} message must come first`;
    else if (role === "user" && previousRole === "user") problem = "roles must alternate";
    else if (role === "assistant") {
      problem = findAssistantProblem(message, seen);
      open = new Set(callsOf(message).map((call) => String(call.id)));
    } else problem = findContentProblem(message.content);
    if (problem !== null) return `messages[${index}]: ${problem}`;
    previousRole = role;
  }
  return open.size > 0 ? `tool_calls without tool messages: ${[...open].join(", ")}` : findToolProblem(body);
}

function findAssistantProblem(message: JsonObject, seen: Set<string>): string | null {
  const calls = callsOf(message);
  const { content } = message;
  if ("tool_calls" in message && calls.length === 0) return "tool_calls must not be empty";
  if (!content && calls.length === 0) return "an assistant message needs content or tool_calls";
  if (content && typeof content !== "string") return "content of an assistant message must be a string";
  for (const { id, type, function: given } of calls) {
    const named = given as JsonObject | undefined;
    if (type !== "function" || typeof named !== "object") return "tool_calls must be functions";
    if (typeof id !== "string" || !safeName.test(id)) return `invalid tool call id ${id}`;
    if (seen.has(id)) return `duplicate tool call id ${id}`;
    seen.add(id);
    if (!safeName.test(String(named.name))) return `invalid function name ${named.name}`;
    if (typeof named.arguments !== "string" || parseObject(Buffer.from(named.arguments)) === null)
      return "arguments must be a string that holds a JSON object";
  }
  return null;
}

function findContentProblem(content: unknown): string | null {
  if (typeof content === "string") return content === "" ? "content must not be empty" : null;
  if (!Array.isArray(content) || content.length === 0) return "content must be a string or a list of parts";
  const bytesOf = (part: unknown, key: string) => (part as JsonObject | undefined)?.[key];
  const unknown = (content as JsonObject[]).find(({ type, text, image_url: image, file }) => {
    const said = type === "text" ? text : type === "file" ? bytesOf(file, "file_data") : bytesOf(image, "url");
    return typeof said !== "string";
  });
  return unknown ? `unknown content part ${JSON.stringify(unknown.type)}` : null;
}

function findToolProblem(body: JsonObject): string | null {
  if (body.tools === undefined) {
    const stray = ["tool_choice", "parallel_tool_calls"].find((field) => body[field] !== undefined);
    return stray ? `${stray} is only allowed when tools are specified` : null;
  }
  if (!Array.isArray(body.tools) || body.tools.length === 0) return "tools must be a non-empty array";
  const names = new Set<string>();
  for (const tool of body.tools as { type?: unknown; function?: { name?: unknown; parameters?: JsonObject } }[]) {
    const name = String(tool.function?.name);
    if (tool.type !== "function" || !safeName.test(name)) return `invalid tool name ${name}`;
    if (names.has(name)) return `duplicate tool ${name}`;
    names.add(name);
    if (tool.function?.parameters?.type !== "object") return `parameters of ${name} must be an object schema`;
  }
  return null;
}

const callsOf = ({ tool_calls: calls }: JsonObject) => (Array.isArray(calls) ? (calls as JsonObject[]) : []);

export function parseObject(raw: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(raw.toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}
