/** Schemas of the answers to whoever looks around. */
import { z } from "zod";

const seconds = z.number().describe("Since the epoch, with fractions");

export const tree = z.object({
  object: z.literal("tree"),
  root: z.string().nullable(),
  current: z.string().nullable().describe("The response that was asked for, or at which the conversation stands"),
  truncated: z.boolean().describe("There are more: the nearest ones and the newest are given"),
  nodes: z.array(
    z.object({
      id: z.string(),
      previous_response_id: z.string().nullable(),
      caller: z.object({ response_id: z.string(), item_id: z.string() }).nullable().describe("Of a sub-agent"),
      conversation_id: z.string().nullable(),
      kind: z.enum(["answer", "compaction"]).describe("A compaction asks nothing but to sum up what was said"),
      status: z.string(),
      model: z.string(),
      profile: z.string(),
      door: z.string(),
      workspace: z.string().describe("The directory that it works in"),
      created_at: seconds,
      ended_at: seconds.nullable(),
      waits_for: z.enum(["approval", "budget"]).nullable(),
      error: z.object({ code: z.string(), message: z.string() }).nullable(),
      usage: z.object({ input_tokens: z.number(), output_tokens: z.number(), total_tokens: z.number() }),
      cost: z.number().nullable().describe("US dollars, where it is known"),
      tree_cost: z.number().optional().describe("With that of its sub-agents, where it has any"),
      prompt: z.string().nullable().describe("The beginning, on one line"),
      answer: z.string().nullable(),
    }),
  ),
});

export const found = z.object({
  object: z.literal("list"),
  data: z.array(
    z.object({
      response_id: z.string(),
      conversation_id: z.string().nullable(),
      item_id: z.string(),
      role: z.enum(["user", "assistant", "reasoning", "tool"]),
      excerpt: z.string(),
      created_at: seconds,
    }),
  ),
  next: z.string().nullable().describe("For `before`; null where everything was looked through"),
});

export const usage = z.object({
  object: z.literal("usage"),
  from: seconds,
  to: seconds,
  truncated: z.boolean().describe("There was not the time to look at all of it: the older days are too low"),
  rows: z.array(
    z.object({
      day: z.string().optional(),
      model: z.string().optional(),
      profile: z.string().optional(),
      responses: z.number(),
      input_tokens: z.number(),
      output_tokens: z.number(),
      cost: z.number(),
    }),
  ),
});

export const change = z.object({
  path: z.string().describe("As the call names it"),
  exists: z.boolean().nullable().describe("Null: the agent may not read it, or it lies outside of the workspace"),
  before: z.string().nullable().describe("Its text; null where there is none, or it is no text of 200 kB at most"),
});
