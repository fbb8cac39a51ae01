/**
 * The request side of chat completions: a `ModelRequest` as the text of a body, and what was learned about
 * the endpoint from what it refused.
 *
 * Invariant: a field that an endpoint has refused is not sent to it again. The body is put together out of
 * texts that were made before: history by node, tools by the identity of their list.
 */
import type { ModelConfig } from "../types/config.ts";
import type { ModelRequest, ToolDefinition } from "../types/model.ts";
import type { TextFormat } from "../types/response.ts";
import { HistoryRenderer, type ReasoningBack } from "./chat-completions-history.ts";
import { type Complaint, isAboutImages } from "./upstream-error.ts";

/** Fields that an answer can do without. */
const optionalFields = [
  "stream_options",
  "parallel_tool_calls",
  "temperature",
  "tool_choice",
  "prompt_cache_key",
  "reasoning_effort",
  "reasoning",
  "usage",
  "top_p",
  "seed",
  "presence_penalty",
  "frequency_penalty",
];

const refusalWords =
  /unsupported|not supported|does ?n[o']t support|unrecognized|unknown|unexpected|not permitted|not allowed|extra[_ ]|additional propert|invalid (?:parameter|argument|field)|only the default/i;
const demandWords = /must|missing|required|pass(?:ed)? back/i;

export class RequestRenderer {
  readonly #config: ModelConfig;
  readonly #key: string;
  readonly #isOpenAi: boolean;
  readonly #isOpenRouter: boolean;
  readonly #dropped = new Set<string>();
  readonly #tools = new WeakMap<readonly ToolDefinition[], string>();
  #maxTokens: "max_tokens" | "max_completion_tokens";
  #reasoningBack: ReasoningBack = "own";
  #shortCallIds: boolean;
  #toolImages = true;
  #history: HistoryRenderer;
  #lastSystem = "";
  #lastSystemJson = "";

  /** `key` is the model's `Model.key`; `host` decides what is known of the endpoint before it is asked. */
  constructor(config: ModelConfig, key: string, host: string) {
    this.#config = config;
    this.#key = key;
    this.#isOpenAi = host === "api.openai.com" || host.endsWith(".openai.azure.com");
    this.#isOpenRouter = config.provider === "openrouter" || host.endsWith("openrouter.ai");
    this.#maxTokens = this.#isOpenAi ? "max_completion_tokens" : "max_tokens";
    this.#shortCallIds = host.endsWith("mistral.ai");
    this.#history = this.#newHistory();
  }

  #newHistory(): HistoryRenderer {
    const reasoningBack = this.#reasoningBack;
    const [shortCallIds, toolImages] = [this.#shortCallIds, this.#toolImages];
    return new HistoryRenderer({ key: this.#key, reasoningBack, shortCallIds, toolImages });
  }

  /** The body as JSON text. */
  render(request: ModelRequest): string {
    const { system, messages } = this.#history.render(request.history);
    const head = this.#renderSystem(request.instructions, system);
    const both = head !== "" && messages !== "" ? "," : "";
    const tools = request.tools.length === 0 ? "" : `,"tools":${this.#renderTools(request.tools)}`;
    const fields = JSON.stringify(this.#fields(request)).slice(1, -1);
    return `{${fields},"messages":[${head}${both}${messages}]${tools}}`;
  }

  #renderSystem(instructions: string, system: string): string {
    const both = instructions !== "" && system !== "" ? `${instructions}\n\n${system}` : instructions + system;
    if (both === "") return "";
    // The calls of a run, and of all runs of a profile, share their instructions.
    if (both !== this.#lastSystem) {
      this.#lastSystem = both;
      this.#lastSystemJson = `{"role":"system","content":${JSON.stringify(both)}}`;
    }
    return this.#lastSystemJson;
  }

  #renderTools(tools: readonly ToolDefinition[]): string {
    let text = this.#tools.get(tools);
    if (text === undefined) {
      const list = tools.map(({ name, description, input, strict }) => {
        const parameters = input.type === "object" ? input : { ...input, type: "object" };
        return { type: "function", function: { name, description, parameters, ...(strict && { strict }) } };
      });
      text = JSON.stringify(list);
      this.#tools.set(tools, text);
    }
    return text;
  }

  #fields(request: ModelRequest): Record<string, unknown> {
    const config = this.#config;
    const fields: Record<string, unknown> = {
      model: config.model,
      stream: true,
      // Padding against traffic analysis doubles the bytes of a stream and is of no use to a program.
      stream_options: this.#isOpenAi ? { include_usage: true, include_obfuscation: false } : { include_usage: true },
    };
    const temperature = request.temperature ?? config.temperature ?? request.defaults?.temperature;
    if (temperature !== undefined) fields.temperature = temperature;
    const maxTokens = maxTokensOf(request, config);
    if (maxTokens !== undefined) fields[this.#maxTokens] = maxTokens;
    if (request.tools.length > 0) {
      const choice = request.toolChoice;
      if (typeof choice === "object") fields.tool_choice = { type: "function", function: { name: choice.name } };
      else if (choice !== "auto") fields.tool_choice = choice;
      if (!request.parallelToolCalls) fields.parallel_tool_calls = false;
    }
    Object.assign(fields, wordingFields(request));
    if (request.reasoningEffort !== undefined) fields.reasoning_effort = request.reasoningEffort;
    else if (typeof config.reasoning === "string") fields.reasoning_effort = config.reasoning;
    else if (config.reasoning !== undefined) fields.reasoning = config.reasoning;
    // Polybrain's field for endpoints of this kind; OpenRouter's models think as they are set up (parity P8).
    else if (request.reasoning && config.provider === "openai") fields.reasoning = { enabled: true };
    if (this.#isOpenAi) fields.prompt_cache_key = request.cacheKey;
    if (this.#isOpenRouter) fields.usage = { include: true };
    for (const field of this.#dropped) delete fields[field];
    if (config.body) {
      Object.assign(fields, config.body);
      delete fields.messages;
      delete fields.tools;
    }
    return fields;
  }

  /**
   * Learns from a refusal (400, 422). True: the body is now another one, and asking again makes sense.
   * Each thing is learned once, so this says true a bounded number of times.
   */
  learn(complaint: Complaint, request: ModelRequest): boolean {
    const said = `${complaint.param} ${complaint.message}`;
    const refused = refusalWords.test(said) || complaint.code.includes("unsupported");
    return (
      this.#learnAboutReasoning(said, refused) ||
      this.#learnAboutMaxTokens(said, refused, request) ||
      this.#learnAboutCallIds(said) ||
      this.#learnAboutImages(said, request) ||
      this.#learnAboutFields(complaint, said, refused, request)
    );
  }

  #learnAboutReasoning(said: string, refused: boolean): boolean {
    const names = /reasoning_content|reasoning_details|thinking_blocks|extra_content/.test(said);
    const inMessages = /messages|assistant/.test(said) && /\breasoning\b/.test(said);
    if (this.#reasoningBack !== "own" || !(names || inMessages)) return false;
    if (refused) this.#reasoningBack = "none";
    else if (/reasoning_content/.test(said) && demandWords.test(said)) this.#reasoningBack = "always";
    else return false;
    this.#history = this.#newHistory();
    return true;
  }

  #learnAboutMaxTokens(said: string, refused: boolean, request: ModelRequest): boolean {
    const other = this.#maxTokens === "max_tokens" ? "max_completion_tokens" : "max_tokens";
    const used = maxTokensOf(request, this.#config) !== undefined;
    if (!used || !refused || !said.includes(this.#maxTokens) || this.#dropped.has(this.#maxTokens)) return false;
    // Never back to the one that was refused before.
    this.#dropped.add(this.#maxTokens);
    this.#maxTokens = other;
    return true;
  }

  #learnAboutCallIds(said: string): boolean {
    if (this.#shortCallIds || !/tool.?call.?id/i.test(said) || !/length of 9|a-z, A-Z, 0-9/.test(said)) return false;
    this.#shortCallIds = true;
    this.#history = this.#newHistory();
    return true;
  }

  /** A model that sees nothing is told of a tool's images by their names alone. */
  #learnAboutImages(said: string, { history }: ModelRequest): boolean {
    if (!this.#toolImages || !isAboutImages(said)) return false;
    if (!history.some(({ entries }) => entries.some(({ meta }) => meta.images))) return false;
    this.#toolImages = false;
    this.#history = this.#newHistory();
    return true;
  }

  #learnAboutFields(complaint: Complaint, said: string, refused: boolean, request: ModelRequest): boolean {
    const sent = this.#fields(request);
    const field = optionalFields.find(
      (name) =>
        name in sent &&
        !(this.#config.body && name in this.#config.body) &&
        (complaint.param === name || (refused && new RegExp(`\\b${name}\\b`).test(said))),
    );
    if (field === undefined) return false;
    this.#dropped.add(field);
    return true;
  }
}

/** What the answer must be, and how its words are chosen. */
function wordingFields({ format, sampling = {} }: ModelRequest): Record<string, unknown> {
  const { topP, stop, seed, presencePenalty, frequencyPenalty } = sampling;
  const fields = {
    top_p: topP,
    stop,
    seed,
    presence_penalty: presencePenalty,
    frequency_penalty: frequencyPenalty,
    response_format: format && format.type !== "text" ? responseFormat(format) : undefined,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function responseFormat(format: TextFormat): unknown {
  if (format.type !== "json_schema") return { type: format.type };
  const { type, ...schema } = format;
  return { type, json_schema: schema };
}

/** What was asked for now beats the configuration, and that beats what holds by default. */
function maxTokensOf(request: ModelRequest, config: ModelConfig): number | undefined {
  return request.maxOutputTokens ?? config.maxOutputTokens ?? request.defaults?.maxOutputTokens;
}
