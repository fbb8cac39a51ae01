/**
 * The listing of responses.
 *
 * Invariant: nothing here changes anything; it shows what belongs to its owner, newest first.
 */
import { z } from "zod";
import type { Status } from "../../types/response.ts";
import { oneLine } from "../../util/text.ts";
import { conversationOf, nodeOf } from "./choice.ts";
import { messageOf } from "./messages.ts";
import { type Result, say } from "./results.ts";
import type { Session } from "./session.ts";

const STATES = ["queued", "in_progress", "waiting", "completed", "incomplete", "failed", "cancelled"] as const;

export const listInput = z.object({
  limit: z.number().int().min(1).max(100).default(20),
  status: z
    .enum([...STATES, "running"])
    .optional()
    .describe("running: all that have not ended"),
  conversationId: z.string().max(200).optional(),
  before: z.string().max(200).optional().describe("Only those older than this response"),
});

export const listOutput = z.object({
  responses: z.array(
    z.object({
      responseId: z.string(),
      status: z.string(),
      model: z.string(),
      profile: z.string(),
      conversationId: z.string().nullable(),
      previousResponseId: z.string().nullable(),
      createdAt: z.string(),
      title: z.string(),
    }),
  ),
});

export async function listResponses({ caller }: Session, given: z.output<typeof listInput>): Promise<Result> {
  const app = await caller.app();
  const { limit, status, conversationId, before } = given;
  const states: readonly Status[] | undefined = status === "running" ? STATES.slice(0, 3) : status && [status];
  const nodes = await app.store.list({
    limit,
    ...(caller.local ? {} : { owner: caller.owner }),
    ...(states && { status: states }),
    ...(conversationId !== undefined && { conversationId: (await conversationOf(app, caller, conversationId)).id }),
    ...(before !== undefined && { before: (await nodeOf(app, caller, before)).id }),
  });
  const responses = await Promise.all(
    nodes.map(
      async ({ id, status: state, model, profile, conversationId: conversation, previousResponseId, createdAt }) => {
        const input = (await app.store.get(id))?.entries.find(({ side }) => side === "input")?.item;
        return {
          responseId: id,
          status: state,
          model,
          profile,
          conversationId: conversation,
          previousResponseId,
          createdAt: new Date(createdAt).toISOString(),
          title: input ? oneLine(messageOf(input)[0]?.content ?? "", 80) : "",
        };
      },
    ),
  );
  const lines = responses.map(
    (one) => `${one.responseId}  ${one.status}  ${one.model}  ${one.createdAt}  ${one.title}`,
  );
  return say(lines.join("\n") || "No responses", { responses });
}
