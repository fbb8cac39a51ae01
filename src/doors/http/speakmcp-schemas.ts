/** Schemas of SpeakMCP's and notion-open-agent's routes. Handlers say what is wrong in those programs' own words. */
import { z } from "zod";

const anything = z.looseObject({});

export const anyObject = anything;

export const callTool = z.looseObject({ name: z.string().min(1).max(300), arguments: z.unknown().optional() });

export const notionCall = z.looseObject({ args: z.unknown().optional() });

export const notionChat = z.looseObject({
  message: z.unknown().optional().describe("What the person says"),
  history: z
    .array(z.looseObject({ role: z.string() }))
    .optional()
    .describe("What was said before"),
  conversation: z.string().optional().describe("Id or name of a conversation to go on with, or to begin"),
  model: z.string().optional(),
});

export type NotionChat = z.output<typeof notionChat>;

export const answerApproval = z.looseObject({
  approvalId: z.string().optional(),
  approved: z.boolean().optional(),
  reason: z.string().max(2_000).optional(),
  scope: z.enum(["once", "session", "always"]).optional(),
});

export type AnswerApproval = z.output<typeof answerApproval>;

export const answerElicitation = z.looseObject({
  action: z.enum(["accept", "decline", "cancel"]),
  content: anything.optional(),
});

export type AnswerElicitation = z.output<typeof answerElicitation>;

export const toggleServer = z.looseObject({ enabled: z.unknown() });

const word = z.string().min(1).max(8192);

export const oauthInitiate = z.looseObject({ serverName: z.string().min(1).max(256) });
export type OauthInitiate = z.output<typeof oauthInitiate>;

export const oauthCallback = z.looseObject({ serverName: z.string(), code: word, state: word, iss: word.optional() });
export type OauthCallback = z.output<typeof oauthCallback>;

export const addServer = z.looseObject({ name: z.string().min(1).max(64), config: anything });
export type AddServer = z.output<typeof addServer>;
