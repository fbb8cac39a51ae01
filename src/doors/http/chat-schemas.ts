/** Schemas of `/v1/chat/completions` (OpenAI reference). Fields that we do not know are let pass. */
import { z } from "zod";

const optional = <T extends z.ZodType>(type: T) => type.nullish();
const loose = z.looseObject({});

const chatMessage = z.looseObject({ role: z.string() });

export const createCompletion = z.looseObject({
  model: optional(z.string()).describe("A model's id, or profile/NAME for an agent. Default: the default profile"),
  messages: optional(z.array(chatMessage)),
  prompt: optional(z.string()).describe("One user message (SpeakMCP)"),
  input: optional(z.string()).describe("One user message (SpeakMCP)"),
  conversation_id: optional(z.string()).describe(
    "Go on with this conversation: only what follows the last answer is new",
  ),
  stream: optional(z.boolean()),
  stream_options: optional(z.looseObject({ include_usage: optional(z.boolean()) })),
  tools: optional(z.array(z.looseObject({ type: z.string() }))),
  tool_choice: optional(z.union([z.string(), z.looseObject({ type: z.string() })])),
  functions: optional(z.array(loose)).describe("The former name of tools; answered with function_call"),
  function_call: optional(z.union([z.string(), z.looseObject({ name: z.string() })])),
  parallel_tool_calls: optional(z.boolean()),
  response_format: optional(z.looseObject({ type: z.string() })),
  temperature: optional(z.number().min(0).max(2)),
  top_p: optional(z.number().min(0).max(1)),
  stop: optional(z.union([z.string(), z.array(z.string()).max(16)])),
  seed: optional(z.int()),
  presence_penalty: optional(z.number().min(-2).max(2)),
  frequency_penalty: optional(z.number().min(-2).max(2)),
  max_tokens: optional(z.int().min(1)),
  max_completion_tokens: optional(z.int().min(1)),
  n: optional(z.int()),
  modalities: optional(z.array(z.string())),
  logprobs: optional(z.boolean()),
  top_logprobs: optional(z.int().min(0).max(20)),
  logit_bias: optional(z.record(z.string(), z.number())),
  moderation: optional(loose),
  reasoning_effort: optional(z.string()),
  store: optional(z.boolean()).describe("False: erased at its end. Default true"),
  metadata: optional(z.record(z.string().max(64), z.string().max(512))),
  user: z.string().optional(),
});

export type CreateCompletion = z.output<typeof createCompletion>;

/** Published; our own answers are not run through it. */
export const completion = z.looseObject({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.looseObject({
      index: z.int(),
      message: z.looseObject({ role: z.literal("assistant"), content: z.string().nullable() }),
      finish_reason: z.enum(["stop", "length", "tool_calls", "function_call", "content_filter"]),
    }),
  ),
  usage: z.looseObject({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }),
});
