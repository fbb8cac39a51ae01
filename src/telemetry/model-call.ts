/**
 * A model call as a span and as two measurements.
 *
 * Invariant: it is ended once, and measured once, whether it succeeds, fails or is left.
 */
import type { Attributes, Histogram, Span } from "@opentelemetry/api";
import { SpanStatusCode } from "@opentelemetry/api";
import type { ModelEvent } from "../types/model.ts";
import type { ModelCall } from "../types/telemetry.ts";
import type { Redact } from "../util/secrets.ts";
import { inputMessages, instructionParts, outputMessages } from "./content.ts";

/** By the host of the endpoint; others are called by their host. */
const providers: readonly (readonly [RegExp, string])[] = [
  [/(?:^|\.)openai\.com$/, "openai"],
  [/\.openai\.azure\.com$/, "azure.ai.openai"],
  [/\.(?:services\.ai|inference\.ml)\.azure\.com$/, "azure.ai.inference"],
  [/(?:^|\.)anthropic\.com$/, "anthropic"],
  [/^generativelanguage\.googleapis\.com$/, "gcp.gemini"],
  [/aiplatform\.googleapis\.com$/, "gcp.vertex_ai"],
  [/^bedrock.*\.amazonaws\.com$/, "aws.bedrock"],
  [/(?:^|\.)cohere\.(?:com|ai)$/, "cohere"],
  [/(?:^|\.)deepseek\.com$/, "deepseek"],
  [/(?:^|\.)groq\.com$/, "groq"],
  [/(?:^|\.)mistral\.ai$/, "mistral_ai"],
  [/(?:^|\.)moonshot\.(?:ai|cn)$/, "moonshot_ai"],
  [/(?:^|\.)perplexity\.ai$/, "perplexity"],
  [/(?:^|\.)x\.ai$/, "x_ai"],
];

interface Endpoint {
  provider: string;
  /** Name at the endpoint. */
  model: string;
  address?: string;
  port?: number;
}

/** What is known of who really answers: an endpoint's key is its address and the model's name there. */
function endpointOf({ model }: ModelCall): Endpoint {
  const bar = model.key.indexOf("|");
  const url = URL.parse(model.key.slice(0, bar));
  const name = model.key.slice(bar + 1);
  if (bar < 0 || !url) return { provider: model.agent ? model.id : "rotunda", model: model.id };
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  const provider = providers.find(([host]) => host.test(url.hostname))?.[1] ?? url.hostname;
  return { provider, model: name, address: url.hostname, port };
}

/** Those that the measurements have, too. */
function common(call: ModelCall): Attributes {
  const { provider, model, address, port } = endpointOf(call);
  return {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": provider,
    "gen_ai.request.model": model,
    ...(address !== undefined && { "server.address": address, "server.port": port }),
  };
}

export function chatAttributes(call: ModelCall): Attributes {
  const { node, request } = call;
  const { temperature, maxOutputTokens, sampling = {}, format } = request;
  return {
    ...common(call),
    "gen_ai.request.stream": true,
    "gen_ai.agent.name": node.profile,
    "rotunda.response.id": node.id,
    ...(node.conversationId !== null && { "gen_ai.conversation.id": node.conversationId }),
    ...(temperature !== undefined && { "gen_ai.request.temperature": temperature }),
    ...(maxOutputTokens !== undefined && { "gen_ai.request.max_tokens": maxOutputTokens }),
    ...(sampling.topP !== undefined && { "gen_ai.request.top_p": sampling.topP }),
    ...(sampling.seed !== undefined && { "gen_ai.request.seed": sampling.seed }),
    ...(sampling.stop !== undefined && { "gen_ai.request.stop_sequences": [...sampling.stop] }),
    ...(sampling.presencePenalty !== undefined && { "gen_ai.request.presence_penalty": sampling.presencePenalty }),
    ...(sampling.frequencyPenalty !== undefined && { "gen_ai.request.frequency_penalty": sampling.frequencyPenalty }),
    ...(format && { "gen_ai.output.type": format.type === "text" ? "text" : "json" }),
  };
}

interface Instruments {
  span: Span;
  tokens: Histogram;
  seconds: Histogram;
}

export class CallWatch {
  readonly #call: ModelCall;
  readonly #instruments: Instruments;
  readonly #began = performance.now();
  #first: number | undefined;
  #redact: Redact | undefined;
  #text: string[] = [];
  readonly #calls = new Map<number, { id: string; name: string; arguments: string }>();
  #finish: Extract<ModelEvent, { type: "finish" }> | undefined;

  constructor(call: ModelCall, instruments: Instruments) {
    this.#call = call;
    this.#instruments = instruments;
  }

  /** From now on what is said is kept for the span. */
  captureInput(redact: Redact): void {
    this.#redact = redact;
    const { instructions, history } = this.#call.request;
    const { span } = this.#instruments;
    if (instructions !== "") span.setAttribute("gen_ai.system_instructions", instructionParts(instructions, redact));
    span.setAttribute("gen_ai.input.messages", inputMessages(history, redact));
  }

  event(event: ModelEvent): void {
    this.#first ??= performance.now();
    if (event.type === "finish") this.#finish = event;
    else if (!this.#redact) return;
    else if (event.type === "text") this.#text.push(event.delta);
    else if (event.type === "call") this.#calls.set(event.index, { id: event.callId, name: event.name, arguments: "" });
    else if (event.type === "call_arguments") {
      const call = this.#calls.get(event.index);
      if (call) call.arguments += event.delta;
    }
  }

  end(): void {
    const { span, tokens } = this.#instruments;
    const finish = this.#finish;
    if (finish) {
      const reason = finish.reasonRaw ?? finish.reason;
      span.setAttribute("gen_ai.response.finish_reasons", [reason]);
      if (this.#redact) {
        const said = outputMessages(this.#text.join(""), [...this.#calls.values()], reason, this.#redact);
        span.setAttribute("gen_ai.output.messages", said);
      }
    }
    const usage = finish?.usage;
    if (usage) {
      const cached = usage.input_tokens_details.cached_tokens;
      const reasoning = usage.output_tokens_details.reasoning_tokens;
      span.setAttributes({
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        ...(cached > 0 && { "gen_ai.usage.cache_read.input_tokens": cached }),
        ...(reasoning > 0 && { "gen_ai.usage.reasoning.output_tokens": reasoning }),
      });
      const labels = common(this.#call);
      tokens.record(usage.input_tokens, { ...labels, "gen_ai.token.type": "input" });
      tokens.record(usage.output_tokens, { ...labels, "gen_ai.token.type": "output" });
    }
    this.#measure();
  }

  fail(type: string): void {
    const { span } = this.#instruments;
    span.setAttribute("error.type", type);
    span.setStatus({ code: SpanStatusCode.ERROR });
    this.#measure(type);
  }

  #measure(error?: string): void {
    const { span, seconds } = this.#instruments;
    if (this.#first !== undefined) {
      span.setAttribute("gen_ai.response.time_to_first_chunk", (this.#first - this.#began) / 1_000);
    }
    const labels = { ...common(this.#call), ...(error !== undefined && { "error.type": error }) };
    seconds.record((performance.now() - this.#began) / 1_000, labels);
    span.end();
  }
}
