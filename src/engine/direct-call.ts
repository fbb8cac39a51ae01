/**
 * Direct call: a tool without a model, asked for by a person or a program that may do it anyway.
 *
 * Invariant: who asks is the approval, so nothing is asked; deny rules hold all the same.
 */
import type { Judgement } from "../types/engine.ts";
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import type { PermissionMode } from "../types/response.ts";
import type { Tool, ToolResult } from "../types/tool.ts";
import type { EngineParts } from "./parts.ts";
import { judge, patternFor, unreadable } from "./permissions.ts";

export async function directCall(
  parts: EngineParts,
  name: string,
  input: JsonObject,
  options: { workspace: string; signal?: AbortSignal; by: string },
): Promise<ToolResult> {
  const tool = await findTool(parts, name);
  const { workspace } = options;
  const subject = (await tool.subject?.(input, workspace)) ?? {};
  const { deny } = parts.permissions;
  const rules = [{ allow: [], ask: [], deny }];
  const sandbox = () => parts.sandbox.level();
  const verdict = await judge({ tool, subject, workspace, mode: "auto", readOnly: false, rules, sandbox });
  if (verdict.effect === "deny") throw new RotundaError("denied", `the call is denied: ${verdict.why}`);
  const signal = options.signal ?? new AbortController().signal;
  const outside = () => Promise.reject(new RotundaError("usage", `${name} needs a response to belong to`));
  const result = await tool.run(input, {
    workspace,
    signal,
    responseId: "",
    itemId: "",
    profile: "",
    depth: 0,
    isolation: { readOnly: false, network: parts.sandbox.network !== "off" },
    hiddenPaths: unreadable(deny),
    progress: (text) => parts.notify({ responseId: null, level: "info", topic: "tools", text: parts.redact(text) }),
    delegate: outside,
    readOutput: async () => undefined,
  });
  return { ...result, text: parts.redact(result.text) };
}

async function findTool(parts: EngineParts, name: string): Promise<Tool> {
  const tool = await parts.tools.find(name);
  if (tool) return tool;
  throw new RotundaError("tool_not_found", `there is no tool ${name}`, { remedy: "rotunda tools lists them." });
}

/** What the rules would say to a call of an outermost response. */
export async function judgeCall(
  parts: EngineParts,
  name: string,
  input: JsonObject,
  options: { workspace: string; profile?: string; mode?: PermissionMode },
): Promise<Judgement> {
  const tool = await findTool(parts, name);
  const profile = await parts.profiles.get(options.profile);
  const subject = (await tool.subject?.(input, options.workspace)) ?? {};
  const learned = await parts.store.rules([options.workspace]);
  const { effect, why } = await judge({
    tool,
    subject,
    workspace: options.workspace,
    mode: options.mode ?? profile.mode ?? parts.permissions.mode,
    readOnly: profile.readOnly,
    rules: [
      ...(profile.permissions ? [profile.permissions] : []),
      parts.permissions,
      { allow: learned.map((rule) => rule.rule), ask: [], deny: [] },
    ],
    sandbox: () => parts.sandbox.level(),
  });
  return { effect, why, pattern: patternFor(tool, subject, options.workspace) };
}
