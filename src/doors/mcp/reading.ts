/**
 * Reading: responses and conversations as resources, profiles as prompts.
 *
 * Invariant: nothing here changes anything, and nothing is looked up before it is asked for.
 */
import {
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import type { McpCaller } from "../../types/mcp.ts";
import { conversationOf, responseOf } from "./choice.ts";
import { messageOf } from "./messages.ts";

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
