/** Routes of budgets: what may be used over many responses. */
import { defineRoute, type Route } from "./routes.ts";

const scope = ["settings", "admin"] as const;

export const budgetsRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/budgets",
    summary: "The budgets, and what is used of them",
    tag: "budgets",
    scope,
    style: "openai",
    load: async () => (await import("./budgets.ts")).listBudgets,
  },
  defineRoute({
    method: "PUT",
    path: "/v1/budgets",
    summary: "Set a budget; what waits for it goes on where it can",
    tag: "budgets",
    scope,
    style: "openai",
    body: async () => (await import("./budgets-schemas.ts")).budgetToSet,
    load: async () => (await import("./budgets.ts")).setBudget,
  }),
  {
    method: "DELETE",
    path: "/v1/budgets",
    summary: "Remove the budget that the parameter `for` names",
    tag: "budgets",
    scope,
    style: "openai",
    query: { for: "Its key: all, profile/NAME, model/ID, token/ID, response/ID, tree/ID" },
    statuses: { 404: "There is none" },
    load: async () => (await import("./budgets.ts")).removeBudget,
  },
];
