/** Budgets over HTTP: what waits says so in the contract's own words, and goes on in the request that raises the budget. */
import { expect, test } from "vitest";
import { type Served, serve, type WireResponse } from "./served.ts";

interface WireBudget {
  for: string;
  limits: object;
  spent: { tokens: number; cost: number };
  resumed: number;
}

// The scripted endpoint tells of 10 tokens in and 5 out.
const limited = () => serve([{ text: "hello" }], { config: { budgets: [{ for: "profile/general", tokens: 15 }] } });

async function get<T>(served: Served, path: string): Promise<T> {
  const answer = await served.fetch(path);
  expect(answer.status).toBe(200);
  return (await answer.json()) as T;
}

test("a background run waits, reads in_progress with the reason, and goes on when the budget is raised", async () => {
  const served = await limited();
  await served.respond({ model: "test-model", input: "one" });
  const { id } = await served.respond({ model: "test-model", input: "two", background: true });
  await served.app.engine.wait(id);
  expect(await get(served, `/v1/responses/${id}`)).toMatchObject({
    status: "in_progress",
    rotunda_status: "waiting",
    error: { code: "budget_reached", type: "rate_limit_error" },
  });
  const budgets = await get<{ data: WireBudget[] }>(served, "/v1/budgets");
  expect(budgets.data.find((budget) => budget.for === "profile/general")).toMatchObject({
    limits: { tokens: 15 },
    spent: { tokens: 15 },
    set: false,
  });
  const raised = await served.fetch("/v1/budgets", { method: "PUT", json: { for: "profile/general", tokens: 100 } });
  expect(await raised.json()).toMatchObject({ for: "profile/general", limits: { tokens: 100 }, resumed: 1 });
  await served.app.engine.wait(id);
  expect(await get<WireResponse>(served, `/v1/responses/${id}`)).toMatchObject({ status: "completed", error: null });
  expect(await get(served, `/v1/responses/${id}/usage`)).toMatchObject({
    usage: { total_tokens: 15 },
    below: { responses: 1, total_tokens: 15 },
  });
});

test.each([false, true])("chat completions (stream: %s) answers 429, and no SDK posts again", async (stream) => {
  const served = await limited();
  const body = { model: "test-model", messages: [{ role: "user", content: "hi" }], stream };
  expect((await served.fetch("/v1/chat/completions", { json: body })).status).toBe(200);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const refused = await served.fetch("/v1/chat/completions", { json: body });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("x-should-retry")).toBe("false");
  const { error } = (await refused.json()) as { error: { code: string; message: string } };
  expect(error.code).toBe("budget_reached");
  expect(error.message).toContain("15 of 15 tokens");
});

test("a foreground response comes back as it waits", async () => {
  const served = await limited();
  await served.respond({ model: "test-model", input: "one" });
  const waiting = await served.respond({ model: "test-model", input: "two" });
  expect(waiting).toMatchObject({ status: "in_progress", error: { code: "budget_reached" } });
});

test("only settings and admin see and set budgets; what names nothing is refused", async () => {
  const served = await limited();
  const token = await served.newToken();
  expect((await served.fetch("/v1/budgets", { token })).status).toBe(403);
  expect((await served.fetch("/v1/budgets", { token, method: "PUT", json: { for: "all" } })).status).toBe(403);
  for (const json of [{ for: "tree" }, { for: "everything", tokens: 1 }, { for: "all", tokens: -1 }, {}]) {
    expect((await served.fetch("/v1/budgets", { method: "PUT", json })).status).toBe(400);
  }
  expect((await served.fetch("/v1/budgets?for=all", { method: "DELETE" })).status).toBe(404);
  await served.fetch("/v1/budgets", { method: "PUT", json: { for: "all", cost: 1, per: "month" } });
  expect((await served.fetch("/v1/budgets?for=all", { method: "DELETE" })).status).toBe(200);
});

test("without a period a budget keeps the one that it has, set or configured; a new one is for ever", async () => {
  const served = await serve([{ text: "hello" }], {
    config: { budgets: [{ for: "profile/plan", cost: 1, per: "month" }] },
  });
  const put = async (json: object) => (await served.fetch("/v1/budgets", { method: "PUT", json })).json();
  expect(await put({ for: "profile/general", tokens: 100, per: "day" })).toMatchObject({ per: "day" });
  expect(await put({ for: "profile/general", tokens: 200 })).toMatchObject({ per: "day", limits: { tokens: 200 } });
  expect(await put({ for: "profile/general", tokens: 200, per: "total" })).toMatchObject({ per: "total" });
  expect(await put({ for: "profile/plan", cost: 2 })).toMatchObject({ per: "month" });
  expect(await put({ for: "all", cost: 2 })).toMatchObject({ per: "total" });
});
