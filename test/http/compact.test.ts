/** Making a context small over HTTP: by hand, by itself, and not at all where the client says so. */
import { expect, test } from "vitest";
import { isSummary, withWindow } from "../engine/window.ts";
import { type Served, serve } from "./served.ts";

const WINDOW = 9_000;
const long = "heron ".repeat(1_500);

async function serving(): Promise<Served> {
  const script = withWindow(WINDOW, (request) => ({ text: isSummary(request) ? "They spoke of herons." : "ok" }));
  const served = await serve(script, { config: { profiles: { general: { tools: ["read_output"] } } } });
  return served;
}

interface Compacted {
  id: string;
  output: { type: string }[];
  usage: { total_tokens: number };
}

test("a path is summed up into a response, from which one goes on; another's path is not found", async () => {
  const served = await serving();
  const first = await served.respond({ model: "test-model", input: "I saw a heron." });
  const answer = await served.fetch("/v1/responses/compact", {
    json: { model: "test-model", previous_response_id: first.id, instructions: "the colours" },
  });
  const made = (await answer.json()) as Compacted;
  expect(made.output.map(({ type }) => type)).toEqual(["message", "compaction"]);
  expect(made.usage.total_tokens).toBeGreaterThan(0);
  expect(JSON.stringify(served.upstream.requests[1]?.body.messages)).toContain("keep this: the colours");
  const next = await served.respond({ model: "test-model", input: "And?", previous_response_id: made.id });
  expect(next.status).toBe("completed");
  const told = JSON.stringify(served.upstream.requests[2]?.body.messages);
  expect(told).toContain("They spoke of herons.");
  expect(told).not.toContain("I saw a heron.");
  const count = async (id: string) => {
    const counted = await served.fetch("/v1/responses/input_tokens", {
      json: { model: "test-model", previous_response_id: id },
    });
    return ((await counted.json()) as { input_tokens: number }).input_tokens;
  };
  expect(await count(next.id)).toBeGreaterThan(0);
  const other = await served.newToken();
  const refused = await served.fetch("/v1/responses/compact", {
    token: other,
    json: { model: "test-model", previous_response_id: first.id },
  });
  expect(refused.status).toBe(400);
  expect((await served.fetch("/v1/responses/compact", { json: { model: "test-model" } })).status).toBe(400);
});

test("S54 a path that grows is summed up by itself; the stream tells it", async () => {
  const served = await serving();
  let id: string | undefined;
  let told = "";
  for (let number = 0; number < 6 && !told.includes('"type":"compaction"'); number++) {
    const json = {
      model: "test-model",
      input: `${number} ${long}`,
      stream: true,
      ...(id && { previous_response_id: id }),
    };
    told = await (await served.fetch("/v1/responses", { json })).text();
    expect(told).toContain("event: response.completed");
    [, id] = /"response":\{"id":"(resp_\w+)"/.exec(told) ?? [];
  }
  expect(told).toContain('event: response.output_item.done\ndata: {"type":"response.output_item.done"');
  expect(told).toContain('"type":"compaction"');
});

test("U3 truncation disabled: the error; a threshold of the client's own: earlier", async () => {
  const served = await serving();
  const grow = async (more: object): Promise<string[]> => {
    let id: string | undefined;
    const statuses: string[] = [];
    for (let number = 0; number < 5; number++) {
      const json = {
        model: "test-model",
        input: `${number} ${long}`,
        ...(id && { previous_response_id: id }),
        ...more,
      };
      const response = (await (await served.fetch("/v1/responses", { json })).json()) as Compacted & { status: string };
      statuses.push(response.output.some(({ type }) => type === "compaction") ? "compacted" : response.status);
      if (response.status !== "completed") return statuses;
      id = response.id;
    }
    return statuses;
  };
  expect((await grow({ truncation: "disabled" })).at(-1)).toBe("failed");
  const context_management = [{ type: "compaction", compact_threshold: 5_000 }];
  expect((await grow({ context_management })).slice(0, 3)).toContain("compacted");
});
