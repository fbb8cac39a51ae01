/** The four built-in profiles, with the limits, temperatures and intents of Finta's agent types (parity F4, F5). */
import type { Profile } from "../types/profile.ts";
import type { Limits } from "../types/response.ts";

const limits = (turns: number): Limits => ({ turns, seconds: 1_800, tokens: 2_000_000, callsPerAnswer: 64 });

const LOOP = `Work in a loop: think about what is needed, act with one tool or several, look at what came back, and think again. Stop when the task is done.`;

const TRUTH = `Say only what you have seen in the results. When a tool fails, read its error and change what you do; do not repeat the same call.`;

export const builtinProfiles: readonly Profile[] = [
  {
    name: "general",
    description: "Any task, with all tools",
    instructions: `You are a capable assistant with access to tools.\n\n${LOOP}\n\n${TRUTH}\n\nBe concise.`,
    generic: true,
    defaults: { temperature: 0.7, maxOutputTokens: 4_096 },
    limits: limits(20),
    readOnly: false,
    advice: true,
  },
  {
    name: "explore",
    description: "Finds out about code and files, changes nothing",
    instructions: `You explore code and files, and change nothing: your tools only read.\n\n${LOOP}\n\n${TRUTH}\n\nEnd with a clear summary of what you found, with the paths and lines that prove it.`,
    defaults: { temperature: 0.3, maxOutputTokens: 4_096 },
    limits: limits(15),
    tools: ["read", "glob", "grep", "bash", "read_output", "skill"],
    servers: [],
    readOnly: true,
    advice: true,
  },
  {
    name: "plan",
    description: "Makes a plan in markdown, changes nothing",
    instructions: `You make plans, and change nothing: look at what there is, then answer with the plan.\n\n${LOOP}\n\n${TRUTH}\n\nThe plan is markdown with these sections: **Overview**, **Implementation Steps**, **Files to Modify**, **Testing Strategy**, **Potential Risks**.`,
    defaults: { temperature: 0.5, maxOutputTokens: 4_096 },
    limits: limits(10),
    tools: ["read", "glob", "read_output", "skill"],
    servers: [],
    readOnly: true,
    advice: true,
  },
  {
    name: "execute",
    description: "Carries out a task with all tools, with care",
    instructions: `You carry out tasks. Correctness and safety come before speed: look before you change, change no more than is needed, and check the result.\n\n${LOOP}\n\n${TRUTH}`,
    defaults: { temperature: 0.5, maxOutputTokens: 4_096 },
    limits: limits(20),
    readOnly: false,
    advice: true,
  },
];
