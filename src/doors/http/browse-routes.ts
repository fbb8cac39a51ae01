/** Routes for whoever looks around: trees, everything said, what was used, what a call would change, and what changes. */
import type { Route } from "./routes.ts";

const scope = "responses:read";

export const browseRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/tree",
    summary: "The whole tree that a response stands in: branches, models, costs, sub-agents",
    tag: "page",
    scope,
    style: "openai",
    query: {
      response: "Id of any response of the tree",
      conversation: "Or the id of a conversation",
      limit: "Responses at most, 1 to 2000; default 500",
    },
    statuses: { 400: "Neither or both are named", 404: "There is none, or it is somebody else's" },
    response: async () => (await import("./browse-schemas.ts")).tree,
    load: async () => (await import("./browse.ts")).readTree,
  },
  {
    method: "GET",
    path: "/v1/search",
    summary: "Search everything said, the newest first; all words must stand in one item",
    tag: "page",
    scope,
    style: "openai",
    query: {
      q: "Words; case does not matter",
      limit: "1 to 100; default 20",
      before: "`next` of the page before",
      all: "true: reasoning, tool calls and their outputs too",
    },
    statuses: { 400: "No words, or a wrong parameter" },
    response: async () => (await import("./browse-schemas.ts")).found,
    load: async () => (await import("./browse.ts")).search,
  },
  {
    method: "GET",
    path: "/v1/usage",
    summary: "Tokens and cost of a time, by day, model and profile",
    tag: "page",
    scope,
    style: "openai",
    query: {
      days: "Days (UTC) up to today, 1 to 400; default 30",
      by: "day, model, profile: several with commas between them; default day,model,profile",
    },
    statuses: { 400: "A wrong parameter" },
    response: async () => (await import("./browse-schemas.ts")).usage,
    load: async () => (await import("./browse.ts")).readUsage,
  },
  {
    method: "GET",
    path: "/v1/tool-approvals/:id/change",
    summary: "The file that a call of write or edit would change, as it is now: of a call that waits for a person",
    tag: "page",
    scope: "approve",
    style: "openai",
    statuses: { 404: "It is somebody else's, was answered, or changes no file" },
    response: async () => (await import("./browse-schemas.ts")).change,
    load: async () => (await import("./browse-change.ts")).readChange,
  },
  {
    method: "GET",
    path: "/rotunda/news",
    summary: "What changes, as events: responses, conversations, approvals, MCP servers, settings",
    tag: "page",
    scope,
    style: "openai",
    produces: "text/event-stream",
    load: async () => (await import("./news-stream.ts")).streamNews,
  },
];
