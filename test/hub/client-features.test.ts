/** M17: what old servers may ask of us, and only where they are allowed to. */

import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import type { SampleRequest } from "../../src/hub/hub-types.ts";
import { createSampler } from "../../src/hub/sampling.ts";
import { createScriptedModel } from "../../src/testing/scripted-model.ts";
import type { ElicitationAnswer } from "../../src/types/elicitation.ts";
import { call, hostile, openHub, temporaryDirectory, until } from "./support.ts";

/** A server that asks for sampling, elicitation and roots in one call; resolves with what it was told. */
async function asked(allowed: { sampling?: boolean; roots?: boolean }, decide: (message: string) => ElicitationAnswer) {
  const directory = temporaryDirectory();
  const server = hostile(directory, { mode: "asks" }, allowed);
  const model = createScriptedModel(["an answer"]);
  const requests: SampleRequest[] = [];
  const sampler = createSampler(async () => model, Date.now);
  const hub = openHub(directory, [server], {
    elicitation: {
      open: () => true,
      asked: ({ id, message }) => queueMicrotask(() => hub.answerElicitation(id, decide(message))),
    },
    sample: (request, signal) => {
      requests.push(request);
      return sampler(request, signal);
    },
  });
  await call(hub, "hostile__echo", { text: "x" });
  const replies = () => server.journal().filter((line) => line.startsWith("reply "));
  await until(() => replies().length === 3);
  return { replies: replies().join("\n"), requests, model, directory };
}

describe("M17 sampling and roots", () => {
  it("M17 are refused unless the server's configuration says otherwise", async () => {
    const { replies, requests } = await asked({}, () => ({ action: "decline" }));
    expect(replies.match(/-32601/g)).toHaveLength(2);
    expect(requests).toEqual([]);
  });

  it("sampling: a person is shown what is asked, and the model's answer goes back", async () => {
    const shown: string[] = [];
    const { replies, requests, model } = await asked({ sampling: true }, (message) => {
      shown.push(message);
      return message.startsWith("It asks to have your model answer") ? { action: "accept" } : { action: "decline" };
    });
    expect(shown.some((message) => message.includes("up to 10 tokens"))).toBe(true);
    expect(requests).toEqual([{ system: "", messages: [], maxTokens: 10 }]);
    expect(model.requests[0]).toMatchObject({ tools: [], toolChoice: "none", instructions: "", maxOutputTokens: 10 });
    expect(replies).toContain("an answer");
  });

  it("sampling: where the person says no, no model is asked", async () => {
    const { replies, model } = await asked({ sampling: true }, () => ({ action: "decline" }));
    expect(model.requests).toEqual([]);
    expect(replies).toContain("did not allow it");
  });

  it("roots: the workspace is told, and nothing else", async () => {
    const { replies, directory } = await asked({ roots: true }, () => ({ action: "decline" }));
    expect(replies).toContain(JSON.stringify({ roots: [{ uri: pathToFileURL(directory).href, name: "workspace" }] }));
    expect(replies.match(/-32601/g)).toHaveLength(1);
  });
});
