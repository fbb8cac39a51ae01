/** The table of chat completions and models. */
import { defineRoute, type Route } from "./routes.ts";

const style = "openai" as const;
const schemas = () => import("./chat-schemas.ts");

export const chatRoutes: Route[] = [
  defineRoute({
    method: "POST",
    path: "/v1/chat/completions",
    summary: "Create a chat completion",
    tag: "chat",
    style,
    scope: "chat",
    idempotent: "response",
    body: async () => (await schemas()).createCompletion,
    response: async () => (await schemas()).completion,
    load: async () => (await import("./chat.ts")).createCompletion,
  }),
  {
    method: "GET",
    path: "/v1/models",
    summary: "List models, and agents as profile/NAME",
    tag: "models",
    style,
    scope: "any",
    load: async () => (await import("./models.ts")).listModels,
  },
  {
    method: "GET",
    path: "/v1/models/:model",
    summary: "Read a model",
    tag: "models",
    style,
    scope: "any",
    params: { model: /^\P{Cc}{1,256}$/u },
    load: async () => (await import("./models.ts")).getModel,
  },
  {
    method: "GET",
    path: "/v1/models/profile/:name",
    summary: "Read an agent",
    tag: "models",
    style,
    scope: "any",
    load: async () => (await import("./models.ts")).getAgent,
  },
];
