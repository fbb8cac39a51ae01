/** Schemas of the Conversations API, and of SpeakMCP's conversations on the same paths. */
import { z } from "zod";

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16, "more than 16 pairs")
  .nullish();
const item = z.looseObject({ type: z.string().optional(), role: z.string().optional() });

/** A body with `title` or `messages` is SpeakMCP's (parity S22), any other OpenAI's. */
export const createConversation = z.looseObject({
  items: z.array(item).max(1_000).nullish(),
  metadata,
  title: z.unknown().optional(),
  messages: z.unknown().optional(),
});

export type CreateConversation = z.output<typeof createConversation>;

export const updateConversation = z.looseObject({ metadata, title: z.string().max(1_000).optional() });
export type UpdateConversation = z.output<typeof updateConversation>;

export const addItems = z.looseObject({ items: z.array(item).min(1).max(1_000) });
export type AddItems = z.output<typeof addItems>;

export const branchConversation = z.looseObject({
  response_id: z.string().optional().describe("Where it branches off; default: where the conversation stands"),
  title: z.string().max(1_000).optional(),
});
export type BranchConversation = z.output<typeof branchConversation>;
