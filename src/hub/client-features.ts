/**
 * Client features: what a server may ask of us during a call: a person's answer, a model's answer, the workspace.
 *
 * Invariant: nothing is offered that is not configured and cannot be kept: questions need a door at which a person can
 * answer; `sampling` (off by default) needs that person's consent each time, for the text that they were shown; `roots`
 * (off by default) tells the one folder that calls work in.
 */
import { pathToFileURL } from "node:url";
import type { Client, ClientCapabilities } from "@modelcontextprotocol/client";
import type { ServerConfig } from "../types/config.ts";
import type { ElicitationAnswer } from "../types/elicitation.ts";
import { visible } from "../util/text.ts";
import type { CallTimers } from "./call-timers.ts";
import { isObject } from "./definitions.ts";
import type { ElicitationRequest } from "./elicitation.ts";
import type { HubEnvironment, SampleAnswer, SampleRequest } from "./hub-types.ts";

const MAX_CHARACTERS = 100_000;
const MAX_MESSAGES = 100;
const MAX_TOKENS = 8192;
/** Of what a model would be sent, as a person reads it. */
const SHOWN = 1500;
/** The code of "the person said no". */
const REFUSED = -1;

export interface ClientFeatures {
  /** Never rejects. */
  elicit?: (
    request: ElicitationRequest,
    signal: AbortSignal,
    responseIds: readonly string[],
  ) => Promise<ElicitationAnswer>;
  sample?: (request: SampleRequest, signal: AbortSignal) => Promise<SampleAnswer>;
  /** Absolute path of the workspace. */
  root?: string;
}

export function featuresOf(config: ServerConfig, environment: HubEnvironment): ClientFeatures {
  const { elicitations, sample, workspace } = environment;
  const asks = elicitations?.offered === true;
  return {
    ...(asks && { elicit: (...asking) => elicitations.ask(config.name, ...asking) }),
    ...(asks && sample && config.sampling === true && { sample }),
    ...(config.roots === true && { root: workspace }),
  };
}

export function capabilitiesOf({ elicit, sample, root }: ClientFeatures): ClientCapabilities {
  return {
    ...(elicit && { elicitation: { form: {}, url: {} } }),
    ...(sample && { sampling: {} }),
    ...(root !== undefined && { roots: {} }),
  };
}

interface Asking {
  timers: CallTimers;
  /** Of the calls under way: which of them a question is for is not said on the wire. */
  responseIds(): string[];
}

export function installFeatures(client: Client, features: ClientFeatures, { timers, responseIds }: Asking): void {
  const { elicit, sample, root } = features;
  if (elicit) {
    client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
      const asking = elicit(params as ElicitationRequest, mcpReq.signal, responseIds());
      const { action, content } = await timers.whileAsking(asking);
      return { action, ...(content && { content: content as Record<string, string> }) };
    });
  }
  if (root !== undefined) {
    client.setRequestHandler("roots/list", () => ({ roots: [{ uri: pathToFileURL(root).href, name: "workspace" }] }));
  }
  if (sample && elicit) {
    client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq }) => {
      const request = readSample(params);
      const question = elicit(questionOf(request), mcpReq.signal, responseIds());
      const { action } = await timers.whileAsking(question);
      if (action !== "accept") throw Object.assign(new Error("the person did not allow it"), { code: REFUSED });
      const { text, model } = await timers.whileAsking(sample(request, mcpReq.signal));
      return { role: "assistant" as const, content: { type: "text" as const, text }, model, stopReason: "endTurn" };
    });
  }
}

/** Texts only, within bounds. Throws what the server is told. */
function readSample(params: unknown): SampleRequest {
  const wrong = (why: string) => Object.assign(new Error(`sampling: ${why}`), { code: -32602 });
  if (!isObject(params) || !Array.isArray(params.messages)) throw wrong("messages are missing");
  if (params.messages.length > MAX_MESSAGES) throw wrong(`more than ${MAX_MESSAGES} messages`);
  if (params.tools !== undefined) throw wrong("tools are not offered");
  const messages = params.messages.map((message): SampleRequest["messages"][number] => {
    if (!isObject(message) || (message.role !== "user" && message.role !== "assistant")) throw wrong("a role is wrong");
    const blocks = Array.isArray(message.content) ? message.content : [message.content];
    const texts = blocks.map((block) => {
      if (!isObject(block) || block.type !== "text" || typeof block.text !== "string") throw wrong("only text is read");
      return block.text;
    });
    return { role: message.role, text: texts.join("\n") };
  });
  const system = typeof params.systemPrompt === "string" ? params.systemPrompt : "";
  const characters = messages.reduce((sum, { text }) => sum + text.length, system.length);
  if (characters > MAX_CHARACTERS) throw wrong(`more than ${MAX_CHARACTERS} characters`);
  const tokens = typeof params.maxTokens === "number" && params.maxTokens > 0 ? params.maxTokens : MAX_TOKENS;
  const temperature = typeof params.temperature === "number" ? params.temperature : undefined;
  const maxTokens = Math.min(MAX_TOKENS, Math.ceil(tokens));
  return { system, messages, maxTokens, ...(temperature !== undefined && { temperature }) };
}

/** A form without fields: yes or no. */
function questionOf({ system, messages, maxTokens }: SampleRequest): ElicitationRequest {
  const said = [system === "" ? "" : `system: ${system}`, ...messages.map(({ role, text }) => `${role}: ${text}`)];
  const whole = said.filter((part) => part !== "").join("\n");
  const text = whole.length > SHOWN ? `${whole.slice(0, SHOWN)}… (${whole.length - SHOWN} more characters)` : whole;
  return {
    mode: "form",
    message: `It asks to have your model answer this (up to ${maxTokens} tokens), and to read the answer:\n${visible(text)}`,
    requestedSchema: { type: "object", properties: {} },
  };
}
