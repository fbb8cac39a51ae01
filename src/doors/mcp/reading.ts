/**
 * Reading: responses and conversations as a listing and as resources, profiles as prompts.
 *
 * Invariant: nothing here changes anything; a listing shows what belongs to its owner, newest first.
 */
import {
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import type { McpCaller } from "../../types/mcp.ts";
import type { Status } from "../../types/response.ts";
import { oneLine } from "../../util/text.ts";
import { messageOf } from "./chat-tools.ts";
import { conversationOf, nodeOf, responseOf } from "./choice.ts";
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

const SCHEME = "rotunda:";

export function addResources(server: McpServer, caller: McpCaller): void {
  const json = (uri: URL, value: unknown) => ({
    contents: [{ uri: uri.href, mimeType: "application/json", text: JSON.stringify(value, null, 2) }],
  });
  const known = async <T>(uri: URL, what: Promise<T>): Promise<T> =>
    what.catch(() => {
      throw new ResourceNotFoundError(uri.href);
    });
  server.registerResource(
    "conversation",
    new ResourceTemplate(`${SCHEME}//conversations/{id}`, {
      list: async () => {
        const app = await caller.app();
        const filter = { limit: 50, ...(caller.local ? {} : { owner: caller.owner }) };
        const found = await app.store.conversations(filter);
        return {
          resources: found.map(({ id, title, name }) => ({
            uri: `${SCHEME}//conversations/${id}`,
            name: name ?? id,
            title,
            mimeType: "application/json",
          })),
        };
      },
    }),
    { title: "A conversation", description: "Its messages, and the response at its end", mimeType: "application/json" },
    async (uri, { id }) => {
      const app = await caller.app();
      const { head, title, name, ...facts } = await known(uri, conversationOf(app, caller, String(id)));
      const path = head === null ? [] : await app.store.path(head);
      const messages = path.flatMap(({ node, entries }) =>
        entries.flatMap(({ item }) => messageOf(item).map((one) => ({ responseId: node.id, ...one }))),
      );
      return json(uri, { id: facts.id, title, name, head, messages });
    },
  );
  server.registerResource(
    "response",
    new ResourceTemplate(`${SCHEME}//responses/{id}`, { list: undefined }),
    { title: "A response", description: "Its input and all that it produced", mimeType: "application/json" },
    async (uri, { id }) => {
      const app = await caller.app();
      return json(uri, await known(uri, responseOf(app, caller, String(id))));
    },
  );
}

/** What an agent of ours is told to be, for whoever wants to be it. The profiles are looked up when they are asked for. */
export function addPrompts({ server }: McpServer, caller: McpCaller): void {
  const argument = { name: "task", description: "What is to be done", required: true };
  server.registerCapabilities({ prompts: {} });
  const usable = async () => (await caller.app()).profiles().filter(({ name }) => caller.mayUseProfile(name));
  server.setRequestHandler("prompts/list", async () => {
    const prompts = (await usable()).map(({ name, description }) => ({
      name,
      title: name,
      description,
      arguments: [argument],
    }));
    return { prompts };
  });
  server.setRequestHandler("prompts/get", async ({ params }) => {
    const known = (await usable()).find(({ name }) => name === params.name);
    if (!known) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Prompt ${params.name} not found`);
    const { instructions } = await (await caller.app()).profile(known.name);
    const text = [instructions, params.arguments?.task ?? ""].filter((part) => part.trim() !== "").join("\n\n");
    return {
      description: known.description,
      messages: [{ role: "user" as const, content: { type: "text" as const, text } }],
    };
  });
}
