/**
 * Hooks: commands of the operator that see a run's steps, and may deny or rewrite a tool call.
 *
 * Invariant: a hook that fails to run, or says nothing, changes nothing, but for exit code 2, which denies;
 * where a `required` one fails, the call is denied.
 * Input: one JSON object on stdin, `{point, response_id, profile, workspace, tool?, arguments?, output?, status?}`.
 * Output, optional: one JSON object `{decision?: "allow"|"deny", reason?, arguments?, output?}`.
 */
import type { HookPoint } from "../types/config.ts";
import type { JsonObject } from "../types/json.ts";
import { parseBounded } from "../util/limits.ts";
import { matchesName } from "../util/text.ts";
import type { EngineParts } from "./parts.ts";
import type { Run } from "./run.ts";

export interface HookAnswer {
  denied?: string;
  arguments?: JsonObject;
  output?: string;
}

const MAXIMUM_ANSWER = 1_048_576;

/** Runs every hook of a point in order; what one rewrites the next one sees. */
export async function runHooks(
  parts: EngineParts,
  run: Run,
  point: HookPoint,
  facts: JsonObject & { tool?: string },
  signal: AbortSignal = run.signal,
): Promise<HookAnswer> {
  const answer: HookAnswer = {};
  for (const hook of parts.hooks[point] ?? []) {
    const { tool } = facts;
    if (tool !== undefined && hook.tools && !hook.tools.some((pattern) => matchesName(pattern, tool))) continue;
    const input = JSON.stringify({
      point,
      response_id: run.node.id,
      profile: run.node.profile,
      workspace: run.node.workspace,
      ...facts,
      ...(answer.arguments && { arguments: answer.arguments }),
      ...(answer.output !== undefined && { output: answer.output }),
    });
    const outcome = await parts.runHook(hook, input, run.node.workspace, signal);
    if (outcome.exitCode === 2) return { denied: outcome.stderr.trim() || `the hook "${hook.command}" denied it` };
    if (outcome.exitCode !== 0) {
      const text = `hook "${hook.command}" failed with exit code ${outcome.exitCode}: ${outcome.stderr.trim()}`;
      parts.notify({ responseId: run.node.id, level: "warn", topic: "tools", text });
      if (hook.required) return { denied: text };
      continue;
    }
    const said = parseAnswer(outcome.stdout);
    if (said.decision === "deny") return { denied: String(said.reason ?? `the hook "${hook.command}" denied it`) };
    if (isObject(said.arguments)) answer.arguments = said.arguments;
    if (typeof said.output === "string") answer.output = said.output;
  }
  return answer;
}

function parseAnswer(stdout: string): JsonObject {
  const text = stdout.trim();
  if (!text.startsWith("{")) return {};
  try {
    const value = parseBounded(text, MAXIMUM_ANSWER);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
