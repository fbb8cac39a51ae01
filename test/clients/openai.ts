/** What the tests with the `openai` SDK share. */
import OpenAI from "openai";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { type Served, type ServedOptions, serve } from "../http/served.ts";

export const model = "test-model";
export const WEATHER = {
  name: "weather",
  description: "The weather of a city",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};
export const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export async function client(
  script: UpstreamScript,
  options?: ServedOptions,
): Promise<{ openai: OpenAI; served: Served }> {
  const served = await serve(script, options);
  return { served, openai: new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token }) };
}

export async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const event of events) list.push(event);
  return list;
}
