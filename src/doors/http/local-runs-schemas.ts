/** Schema of `POST /rotunda/runs`. */
import { z } from "zod";

export const localRun = z.strictObject({
  input: z.union([z.string().min(1), z.array(z.looseObject({ type: z.string() }))]).describe("A text, or items"),
  workspace: z.string().min(1),
  configuration: z.string().optional().describe("Absolute path of the configuration file that was named"),
  fingerprint: z.string().describe("Of the client's configuration"),
  settings: z.looseObject({}),
  previousResponseId: z.string().optional(),
  conversation: z.string().nullable().optional(),
  conversationName: z.string().optional(),
  profile: z.string().optional(),
  model: z.string().optional(),
  door: z.enum(["cli", "tui", "mcp", "acp"]).default("cli"),
  queue: z.boolean().optional(),
  idempotency: z.object({ key: z.string().min(1).max(300), digest: z.string() }).optional(),
  interactive: z.boolean().describe("A person at the client answers approvals"),
});

export type LocalRun = z.output<typeof localRun>;
