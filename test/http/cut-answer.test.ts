/** An answer that a crash has cut, and that was said anew: clients that join texts read it once. */
import OpenAI from "openai";
import { expect, test } from "vitest";
import { eventsOf, serve } from "./served.ts";

test("the cut message keeps its place and loses its text; the stream has both", async () => {
  const words = Array.from({ length: 40 }, (_, number) => `w${number} `);
  const first = await serve([{ text: words, delay: 40 }]);
  const body = { model: "test-model", input: "Count.", background: true };
  const { id } = await first.respond(body);
  await expect
    .poll(async () => (await first.app.store.events(id, -1, 1_000)).map(({ type }) => type), { timeout: 10_000 })
    .toContain("response.output_text.delta");
  await first.stop();
  const second = await serve([{ text: words }], { folder: first.folder, endpoint: first.upstream });
  await second.app.engine.resume(id);
  await second.app.engine.wait(id);
  const client = new OpenAI({ baseURL: `${second.url}/v1`, apiKey: second.token });
  const response = await client.responses.retrieve(id);
  expect(response.status).toBe("completed");
  const messages = response.output.filter((item) => item.type === "message");
  expect(messages.map(({ status, content }) => [status, content.length])).toEqual([
    ["incomplete", 0],
    ["completed", 1],
  ]);
  expect(response.output_text).toBe(words.join(""));
  const events = await eventsOf(await second.fetch(`/v1/responses/${id}?stream=true`));
  const told = events.filter(({ event }) => event === "response.output_text.done").map(({ data }) => data);
  expect(told).toHaveLength(2);
  expect((told[0] as { text: string }).text).toMatch(/^w0 /);
});
