/** Schemas of the page's sign-in. */
import { z } from "zod";
import { scopes } from "../../types/token.ts";

export const signIn = z.union([
  z.strictObject({ code: z.string().min(1).max(200) }),
  z.strictObject({ token: z.string().min(1).max(500) }),
]);

export type SignIn = z.output<typeof signIn>;

export const session = z.object({
  name: z.string().describe('"local", or the name of the token'),
  local: z.boolean().describe("It sees what belongs to any token"),
  scopes: z.array(z.enum(scopes)),
  csrf: z.string().describe("For the header x-rotunda-csrf of every further request; empty where none is needed"),
  auth: z.enum(["token", "none"]),
  expires_at: z.number().nullable().describe("Milliseconds since the epoch"),
  body_limit: z.number().describe("Bytes of a request, attachments included"),
  version: z.string(),
  server: z
    .object({ workspace: z.string(), database: z.enum(["SQLite", "Postgres"]) })
    .optional()
    .describe("What is in force, for the scope settings: the directory that it works in, and where it keeps things"),
});
