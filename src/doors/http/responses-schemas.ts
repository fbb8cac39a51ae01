/** Schemas of the Responses API (OpenAI reference; Open Responses). Fields that we do not know are let pass. */
import { z } from "zod";

const optional = <T extends z.ZodType>(type: T) => type.nullish();
const loose = z.looseObject({});
const metadata = z.record(z.string().max(64), z.string().max(512)).describe("Up to 16 pairs");

/** An item of the input; what each type must have is checked where it is translated. */
const inputItem = z.looseObject({ type: z.string().optional(), role: z.string().optional() });

export const input = z.union([z.string(), z.array(inputItem)]);

export const textFormat = z.looseObject({
  type: z.enum(["text", "json_object", "json_schema"]),
  name: z.string().max(64).optional(),
  schema: loose.optional(),
  strict: optional(z.boolean()),
  description: z.string().optional(),
});

const common = {
  model: optional(z.string().min(1).max(512)).describe(
    "A model's id, or profile/NAME for an agent. Default: the default profile",
  ),
  input: optional(input),
  instructions: optional(z.string()).describe("Holds for this response only"),
  previous_response_id: optional(z.string()),
  conversation: optional(z.union([z.string(), z.looseObject({ id: z.string() })])),
  tools: optional(z.array(z.looseObject({ type: z.string() }))),
  tool_choice: optional(z.union([z.string(), z.looseObject({ type: z.string() })])),
  parallel_tool_calls: optional(z.boolean()),
  reasoning: optional(
    z.looseObject({
      effort: optional(z.string()),
      summary: optional(z.string()),
      generate_summary: optional(z.string()).describe("The former name of summary"),
    }),
  ),
  text: optional(z.looseObject({ format: optional(textFormat), verbosity: optional(z.string()) })),
  truncation: optional(z.enum(["auto", "disabled"])).describe("disabled: too long a context is an error"),
  context_management: optional(
    z.array(z.looseObject({ type: z.string(), compact_threshold: optional(z.int().min(1_000)) })),
  ).describe("compaction: tokens above which older items are summed up"),
};

export const createResponse = z.looseObject({
  ...common,
  max_tool_calls: optional(z.int().min(1)),
  max_output_tokens: optional(z.int().min(1)),
  temperature: optional(z.number().min(0).max(2)),
  top_p: optional(z.number().min(0).max(1)),
  include: optional(z.array(z.string())),
  metadata: optional(metadata),
  store: optional(z.boolean()).describe("False: erased at its end. Default true"),
  background: optional(z.boolean()),
  stream: optional(z.boolean()),
  stream_options: optional(z.looseObject({})),
  service_tier: optional(z.string()),
  prompt_cache_key: optional(z.string()),
  safety_identifier: optional(z.string()),
  user: z.string().optional(),
  top_logprobs: optional(z.int().min(0).max(20)),
  prompt: optional(loose),
  moderation: optional(loose),
});

export type CreateResponse = z.output<typeof createResponse>;

export const countTokens = z.looseObject(common);
export type CountTokens = z.output<typeof countTokens>;

export const compactResponse = z.looseObject({
  model: z.string().min(1).nullable().describe("A model's id, or profile/NAME; null: the default profile"),
  input: optional(input),
  previous_response_id: optional(z.string()),
  instructions: optional(z.string()),
});

export type CompactResponse = z.output<typeof compactResponse>;

export const steerResponse = z.looseObject({ input });

const usage = z.looseObject({
  input_tokens: z.int(),
  input_tokens_details: z.looseObject({ cached_tokens: z.int(), cache_write_tokens: z.int() }),
  output_tokens: z.int(),
  output_tokens_details: z.looseObject({ reasoning_tokens: z.int() }),
  total_tokens: z.int(),
});

/** Published; our own answers are not run through it. */
export const response = z.looseObject({
  id: z.string(),
  object: z.literal("response"),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.enum(["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]),
  model: z.string(),
  output: z.array(z.looseObject({ id: z.string(), type: z.string() })),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  incomplete_details: z.looseObject({ reason: z.string() }).nullable(),
  usage: usage.nullable(),
  previous_response_id: z.string().nullable(),
  metadata: z.record(z.string(), z.string()),
});

export const itemList = z.looseObject({
  object: z.literal("list"),
  data: z.array(loose),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
