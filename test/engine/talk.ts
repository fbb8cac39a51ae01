/** A conversation with a model behind a scripted endpoint, turn after turn. */
import type { UpstreamRequest, UpstreamStep } from "../../src/testing/upstream.ts";
import type { ModelConfig } from "../../src/types/config.ts";
import type { CompactionItem } from "../../src/types/item.ts";
import type { ResponseNode } from "../../src/types/response.ts";
import { bench } from "../models/helpers.ts";
import { engineWith, type FixtureOptions } from "../support.ts";
import { isSummary } from "./window.ts";

/** Tokens that the endpoints of these tests take. */
export const WINDOW = 4_000;

export const filler = (label: string, characters = 1_200) => `${label} ${"lorem ipsum ".repeat(characters / 12)}`;

export interface Talk {
  bench: Awaited<ReturnType<typeof bench>>;
  fixture: Awaited<ReturnType<typeof engineWith>>;
  say(text: string, previous?: string): Promise<ResponseNode>;
  items(id: string): Promise<CompactionItem[]>;
}

export async function talkWith(
  script: Parameters<typeof bench>[0],
  config: Partial<ModelConfig> = {},
  options: FixtureOptions = {},
): Promise<Talk> {
  const made = await bench(script, config);
  const profile = { instructions: "Be brief.", defaults: {}, ...options.profile };
  const fixture = await engineWith({ model: made.model, ...options, profile });
  const { engine } = fixture;
  return {
    bench: made,
    fixture,
    async say(text, previous) {
      const request = { input: text, workspace: "/", door: "test", conversation: null };
      const { id } = await engine.start({
        ...request,
        ...(previous !== undefined && { previousResponseId: previous }),
      });
      return engine.wait(id);
    },
    async items(id) {
      const { output } = await engine.get(id);
      return output.filter((item): item is CompactionItem => item.type === "compaction");
    },
  };
}

export const answer = (request: UpstreamRequest, number: number): UpstreamStep =>
  isSummary(request) ? { text: "SUMMARY: the code word is heron." } : { text: filler(`answer ${number}`, 600) };

export const text = (messages: unknown) => JSON.stringify(messages);
