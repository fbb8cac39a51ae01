/** Every route of the table, with whatever comes by chance: no crash, no fault of ours, no 5xx that is not declared. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { usualStatuses } from "../../src/doors/http/openapi.ts";
import { newId } from "../../src/util/ids.ts";
import { serve } from "./served.ts";
import { LONGEST, watchTurns } from "./turns.ts";

const FIELDS = [
  "model",
  "input",
  "messages",
  "stream",
  "conversation",
  "previous_response_id",
  "tools",
  "tool_choice",
  "metadata",
  "instructions",
  "title",
  "name",
  "enabled",
  "approvalId",
  "approved",
  "arguments",
  "profileId",
  "items",
  "profile",
  "max_output_tokens",
  "text",
  "reasoning",
  "background",
  "store",
  "include",
  "message",
  "history",
  "action",
  "content",
  "systemPrompt",
  "guidelines",
  "prompt",
  "conversation_id",
  "response_format",
  "workspace",
  "fingerprint",
  "settings",
];

const anything = fc.jsonValue({ maxDepth: 3 });

const likely: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: anything },
  fc.constantFrom<unknown>(
    "test-model",
    "profile/general",
    "hello",
    true,
    false,
    null,
    -1,
    0,
    1e300,
    "\u0000",
    "x".repeat(5_000),
    [],
    {},
    "__proto__",
    [{ role: "user", content: "hello" }],
    [{ role: "tool", content: "x", tool_call_id: "c" }],
    [{ type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] }],
    [{ type: "function_call_output", call_id: "c", output: "x" }],
    [{ type: "mcp_approval_response", approval_request_id: newId("mcpr"), approve: true }],
    [
      { type: "function", name: "f", parameters: {} },
      { type: "namespace", tools: [{ type: "function" }] },
      { type: "web_search" },
    ],
    newId("resp"),
    newId("conv"),
    { id: newId("conv") },
    { format: { type: "json_schema", name: "x", schema: { type: "object" } } },
  ),
);

const body = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.dictionary(fc.constantFrom(...FIELDS), likely, { maxKeys: 6 }).map((value) => JSON.stringify(value)),
  },
  { weight: 2, arbitrary: anything.map((value) => JSON.stringify(value)) },
  fc.constant(undefined),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(
    "[".repeat(200_000),
    '{"a":',
    '"\\ud800"',
    "\u0000",
    "x".repeat(70_000),
    `{"input":[${"1,".repeat(40_000)}1]}`,
    `{"messages":[${"{},".repeat(20_000)}{}]}`,
  ),
);

const segment = fc.oneof(
  fc.constantFrom(
    "..",
    "%00",
    "a/../b",
    "%F0%9F%98%80",
    "null",
    "%20",
    "%",
    "%c3%28",
    "echo",
    "general",
    "x".repeat(300),
  ),
  fc.constantFrom(...(["resp", "conv", "mcpr", "msg", "eli"] as const)).map((prefix) => newId(prefix)),
  fc.string({ maxLength: 40 }).map((text) => encodeURIComponent(text.toWellFormed())),
);

const headers = fc.dictionary(
  fc.constantFrom(
    "content-type",
    "idempotency-key",
    "x-request-id",
    "origin",
    "accept",
    "range",
    "x-forwarded-for",
    "authorization",
    "x-rotunda-events",
    "last-event-id",
    "traceparent",
  ),
  fc.oneof(
    fc.constantFrom("application/json", "text/plain", "", "null", "*", "speakmcp", "bytes=0-", "Bearer x"),
    fc.string({ maxLength: 30 }).map((text) => text.replaceAll(/[^\x20-\x7e]/g, "")),
  ),
  { maxKeys: 3 },
);

const query = fc.dictionary(
  fc.constantFrom("limit", "after", "before", "order", "stream", "starting_after", "include", "conversationId", "x"),
  fc.oneof(
    fc.constantFrom("1", "-1", "true", "asc", "1e9", "NaN", newId("resp"), "999999999999999999999"),
    fc.string({ maxLength: 10 }),
  ),
  { maxKeys: 3 },
);

test("G14 every route of the table, by chance", { timeout: 240_000 }, async () => {
  const served = await serve([{ text: "hello" }]);
  const { door, url, token } = served;
  const named = await served.newToken();
  const call = fc.record({
    route: fc.constantFrom(...door.services.routes),
    method: fc.option(fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"), { freq: 2 }),
    as: fc.constantFrom(token, token, token, named, "nobody", null),
    values: fc.array(segment, { minLength: 4, maxLength: 4 }),
    query,
    headers: fc.option(headers, { nil: {} }),
    body,
  });
  const turns = watchTurns();
  await fc.assert(
    fc.asyncProperty(call, async ({ route, method, as, values, query: asked, headers: lines, body: content }) => {
      let next = 0;
      const path = route.path.replace(/:\w+/g, () => values[next++] ?? "x");
      const verb = method ?? route.method;
      const init: RequestInit = { method: verb, signal: AbortSignal.timeout(20_000) };
      init.headers = {
        ...(as !== null && { authorization: `Bearer ${as}` }),
        "content-type": "application/json",
        ...lines,
      };
      if (content !== undefined && verb !== "GET" && verb !== "HEAD") init.body = content;
      const search = new URLSearchParams(
        Object.entries(asked).map(([name, value]): [string, string] => [name, value.toWellFormed()]),
      );
      const answer = await fetch(`${url}${path}?${search}`, init);
      // News goes on until its reader leaves.
      const isEndless = route.path === "/rotunda/news" && answer.status === 200;
      if (isEndless) await answer.body?.cancel();
      const text = isEndless ? "" : await answer.text();
      const served = `${verb} ${path} → ${answer.status} ${text.slice(0, 300)}`;
      const declared = { ...usualStatuses(route), ...route.statuses };
      if (answer.status >= 500) expect(Object.keys(declared), served).toContain(String(answer.status));
      expect(answer.headers.get("x-request-id"), served).toBeTruthy();
      expect(answer.headers.get("x-content-type-options"), served).toBe("nosniff");
      // A page for a person stays a page.
      const isPage = route.produces === "text/html" && text.startsWith("<!doctype html>");
      if (answer.status >= 400 && verb !== "HEAD" && !isPage) expect(JSON.parse(text), served).toHaveProperty("error");
    }),
    { numRuns: Number(process.env.RUNS ?? 1_500) },
  );
  expect(turns.stop()).toBeLessThan(LONGEST);
  expect(door.services.metrics.faults).toBe(0);
  expect(door.services.metrics.unhandledRejections).toBe(0);
  expect((await served.fetch("/readyz")).status).toBe(200);
});
