/** The table of conversations. Their ids may also be names that clients gave them. */
import { defineRoute, type Route } from "./routes.ts";

const style = "openai" as const;
const tag = "conversations";
const params = { id: "name", item: "id" } as const;
const schemas = () => import("./conversations-schemas.ts");
const handlers = () => import("./conversations.ts");
const readable = ["responses:read", "chat"] as const;
const writable = ["responses:write", "chat"] as const;

export const conversationsRoutes: Route[] = [
  defineRoute({
    method: "POST",
    path: "/v1/conversations",
    summary: "Create a conversation",
    tag,
    style,
    scope: writable,
    bodyOptional: true,
    body: async () => (await schemas()).createConversation,
    load: async () => {
      const { createConversation } = await handlers();
      return (context, body) => createConversation(context, body ?? {});
    },
  }),
  {
    method: "GET",
    path: "/v1/conversations",
    summary: "List conversations, the last used first",
    tag,
    style,
    scope: readable,
    query: { limit: "1 to 1000", after: "Id of the last one of the page before" },
    load: async () => (await handlers()).listConversations,
  },
  {
    method: "GET",
    path: "/v1/conversations/:id",
    summary: "Read a conversation with its messages",
    tag,
    style,
    params,
    scope: readable,
    load: async () => (await handlers()).getConversation,
  },
  ...(["POST", "PUT"] as const).map((method) =>
    defineRoute({
      method,
      path: "/v1/conversations/:id",
      summary: "Change a conversation's title or metadata",
      tag,
      style,
      params,
      scope: writable,
      body: async () => (await schemas()).updateConversation,
      load: async () => (await handlers()).updateConversation,
    }),
  ),
  {
    method: "DELETE",
    path: "/v1/conversations/:id",
    summary: "Delete a conversation; its responses stay",
    tag,
    style,
    params,
    scope: writable,
    load: async () => (await handlers()).deleteConversation,
  },
  defineRoute({
    method: "POST",
    path: "/v1/conversations/:id/branch",
    summary: "Begin another conversation at the same place",
    tag,
    style,
    params,
    scope: writable,
    bodyOptional: true,
    body: async () => (await schemas()).branchConversation,
    load: async () => {
      const { branchConversation } = await handlers();
      return (context, body) => branchConversation(context, body ?? {});
    },
  }),
  {
    method: "GET",
    path: "/v1/conversations/:id/items",
    summary: "List the items of a conversation",
    tag,
    style,
    params,
    scope: readable,
    query: { limit: "1 to 100, default 20", after: "Id of an item", order: "asc or desc (default)" },
    load: async () => (await handlers()).listItems,
  },
  defineRoute({
    method: "POST",
    path: "/v1/conversations/:id/items",
    summary: "Add items to a conversation",
    tag,
    style,
    params,
    scope: writable,
    body: async () => (await schemas()).addItems,
    load: async () => (await handlers()).addItems,
  }),
  {
    method: "GET",
    path: "/v1/conversations/:id/items/:item",
    summary: "Read an item",
    tag,
    style,
    params,
    scope: readable,
    load: async () => (await handlers()).getItem,
  },
  {
    method: "DELETE",
    path: "/v1/conversations/:id/items/:item",
    summary: "Take an item out of a conversation",
    tag,
    style,
    params,
    scope: writable,
    load: async () => (await handlers()).deleteItem,
  },
];
