/**
 * Prompt: the instructions of a run.
 *
 * Invariant: the same profile, tools and workspace give the same text, so that a provider's prompt cache
 * and a golden file see no difference between two turns.
 */
import type { Profile } from "../types/profile.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Tool } from "../types/tool.ts";

export interface PromptParts {
  profile: Profile;
  node: ResponseNode;
  tools: readonly Tool[];
  projectInstructions: string;
}

export function instructionsOf({ profile, node, tools, projectInstructions }: PromptParts): string {
  const sections = [node.settings.instructions ?? profile.instructions, profile.guidelines ?? ""];
  if (tools.length > 0) sections.push(`You work in the directory ${node.workspace}. Relative paths start there.`);
  if (projectInstructions !== "") sections.push(projectInstructions);
  const advice = profile.advice ? tools.flatMap((tool) => (tool.advice === undefined ? [] : [tool.advice])) : [];
  if (advice.length > 0) sections.push(`# Tool Usage Best Practices\n\n${advice.join("\n\n")}`);
  return sections.filter((section) => section.trim() !== "").join("\n\n");
}

export const NUDGE = "Your last answer was empty. Answer the question, or say what keeps you from it.";

export const FINAL: Record<string, string> = {
  max_turns: "The limit of steps is reached. Do not call any more tools: answer now with what you know.",
  max_calls: "Too many tool calls in one answer: the limit is reached. Answer now with what you know.",
  repeated_calls:
    "The same call gave the same result three times. Do not call any more tools: answer with what you know.",
};
