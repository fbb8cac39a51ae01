/** How many tokens a model can read: by its name, by configuration, and by what its endpoint says. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { knownWindow, Windows, windowIn } from "../../src/models/windows.ts";
import { temporaryFolder } from "../support.ts";

test.each([
  ["gpt-4o-mini", 128_000],
  ["openai/gpt-4.1", 1_047_576],
  ["gpt-4", 8_192],
  ["gpt-4-turbo", 128_000],
  ["gpt-5-mini", 272_000],
  ["anthropic/claude-sonnet-4-5", 200_000],
  ["gemini-2.5-pro", 1_048_576],
  ["accounts/fireworks/models/deepseek-v3p1", 128_000],
  ["meta-llama/Llama-3.3-70B-Instruct", 131_072],
  ["llama-3-8b", 8_192],
  ["mistral-large-latest", 128_000],
  ["something-else", undefined],
])("%s reads %s tokens", (name, tokens) => expect(knownWindow(name)).toBe(tokens));

describe("what endpoints say", () => {
  test.each([
    [
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
      128_000,
    ],
    ["prompt is too long: 210000 tokens > 200000 maximum", 200_000],
    ["input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length", 200_000],
    ["The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576],
    ["request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096],
    ["the request exceeds the available context size (n_ctx = 4096)", 4_096],
    ["Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32_768],
    ["The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4_096],
    ["This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072],
    ["`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000", 4_097],
    ["the total number of tokens in the prompt cannot exceed 4081 - received 5000", 4_081],
    ["the model is loaded with context length of only 4096 tokens, which is not enough", 4_096],
    ["tokens per minute (TPM): Limit 6000, Requested 7000", 6_000],
    ["Input is too long for requested model.", undefined],
    ["Request Entity Too Large", undefined],
  ])("%s", (message, tokens) => expect(windowIn(message)).toBe(tokens));
});

test("what an endpoint said beats the table, and a configured value that is larger; it is kept in a file", () => {
  const path = join(temporaryFolder(), "state", "windows.json");
  const windows = new Windows(path);
  expect(windows.of("k", "gpt-4o", undefined)).toBe(128_000);
  expect(windows.of("k", "gpt-4o", undefined, false)).toBeUndefined();
  expect(windows.of("k", "gpt-4o", 50_000)).toBe(50_000);
  windows.learn("k", "maximum context length is 32768 tokens");
  windows.learn("k", "no number at all");
  expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ k: 32_768 });
  const again = new Windows(path);
  expect(again.of("k", "gpt-4o", undefined)).toBe(32_768);
  expect(again.of("k", "gpt-4o", 50_000)).toBe(32_768);
  expect(again.of("k", "gpt-4o", 10_000)).toBe(10_000);
  expect(again.of("other", "gpt-4o", undefined)).toBe(128_000);
});
