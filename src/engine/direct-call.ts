/**
 * Direct call: a tool without a model, asked for by a person or a program.
 *
 * Invariant: in mode auto whoever asks is the approval, so nothing is asked, and deny rules hold all the same; in any
 * other mode a call that would have to be asked about is refused.
 */
import { hash } from "node:crypto";
import type { DirectCallOptions, Judgement } from "../types/engine.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { Owner, PermissionMode } from "../types/response.ts";
import type { Tool, ToolContext, ToolResult } from "../types/tool.ts";
import { canonicalJson } from "../util/canonical.ts";
import type { EngineParts } from "./parts.ts";
import { judge, patternFor, unreadable } from "./permissions.ts";

/** Those that are under way, so that an emergency stop reaches them. */
export class DirectCalls {
  readonly #parts: EngineParts;
  readonly #open = new Set<{ stop: AbortController; by: string }>();

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  async call(name: string, input: JsonObject, options: DirectCallOptions): Promise<ToolResult> {
    const stop = new AbortController();
    const entry = { stop, by: options.by };
    this.#open.add(entry);
    try {
      const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
      return await directCall(this.#parts, name, input, { ...options, signal });
    } finally {
      this.#open.delete(entry);
    }
  }

  /** Of one owner, or of all. */
  stop(reason: string, owner?: Owner): void {
    for (const { stop, by } of this.#open) if (owner === undefined || owner === by) stop.abort(reason);
  }
}

async function directCall(
  parts: EngineParts,
  name: string,
  input: JsonObject,
  options: DirectCallOptions,
): Promise<ToolResult> {
  const tool = await findTool(parts, name);
  const { workspace, mode = "auto", by, door = by } = options;
  const subject = (await tool.subject?.(input, workspace)) ?? {};
  const { deny } = parts.permissions;
  const rules = [mode === "auto" ? { allow: [], ask: [], deny } : parts.permissions];
  const sandbox = () => parts.sandbox.level();
  const verdict = options.judged
    ? { ...options.judged, byRule: false }
    : await judge({ tool, subject, workspace, mode, readOnly: false, rules, sandbox });
  const written = canonicalJson(input);
  const details: { [key: string]: Json } = {
    tool: tool.name,
    arguments: parts.redact(written).slice(0, 2_000),
    argumentsDigest: hash("sha256", written),
    decision: verdict.effect === "allow" ? "allow" : "deny",
    why: verdict.why,
  };
  const record = (more: { [key: string]: Json }) => {
    const entry = { action: "direct_call", who: by, door, responseId: null, at: parts.now() } as const;
    return parts.store.audit({ ...entry, details: { ...details, ...more } });
  };
  if (verdict.effect !== "allow") {
    await record({});
    if (verdict.effect === "deny") throw new RotundaError("denied", `the call is denied: ${verdict.why}`);
    throw new RotundaError("approval_needed", `the call needs an approval: ${verdict.why}`);
  }
  const trusted = mode === "auto" || verdict.byRule;
  const signal = options.signal ?? new AbortController().signal;
  const outside = () => Promise.reject(new RotundaError("usage", `${name} needs a response to belong to`));
  const context: ToolContext = {
    workspace,
    signal,
    responseId: "",
    itemId: "",
    profile: "",
    depth: 0,
    isolation: { readOnly: false, network: trusted ? parts.sandbox.network !== "off" : parts.sandbox.network === "on" },
    hiddenPaths: unreadable(deny),
    progress: (text) => parts.notify({ responseId: null, level: "info", topic: "tools", text: parts.redact(text) }),
    delegate: outside,
    readOutput: async () => undefined,
  };
  const running = options.perform ? options.perform(signal) : tool.run(input, context);
  const result = await running.catch(async (thrown: unknown) => {
    // What it did until then is not known: all the more reason to write down that it began.
    await record({ status: "failed" });
    throw thrown;
  });
  const text = parts.redact(result.text);
  await record({ status: result.isError ? "failed" : "completed", resultDigest: hash("sha256", text) });
  return { ...result, text };
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
