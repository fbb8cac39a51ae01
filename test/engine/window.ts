/** An endpoint with a window: a prompt that is longer is refused in the words of a real one. */
import type { UpstreamRequest, UpstreamStep } from "../../src/testing/upstream.ts";
import type { JsonObject } from "../../src/types/json.ts";

export const dialects = {
  openai: (tokens: number, window: number) => ({
    status: 400,
    body: {
      error: {
        message: `This model's maximum context length is ${window} tokens. However, your messages resulted in ${tokens} tokens. Please reduce the length of the messages.`,
        type: "invalid_request_error",
        param: "messages",
        code: "context_length_exceeded",
      },
    },
  }),
  vllm: (tokens: number, window: number) => ({
    status: 400,
    body: {
      object: "error",
      message: `This model's maximum context length is ${window} tokens. However, you requested ${tokens} tokens in the messages, Please reduce the length of the messages.`,
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  }),
  anthropic: (tokens: number, window: number) => ({
    status: 400,
    body: {
      error: { type: "invalid_request_error", message: `prompt is too long: ${tokens} tokens > ${window} maximum` },
    },
  }),
  gemini: (tokens: number, window: number) => ({
    status: 400,
    body: {
      error: {
        code: 400,
        message: `The input token count (${tokens}) exceeds the maximum number of tokens allowed (${window}).`,
        status: "INVALID_ARGUMENT",
      },
    },
  }),
  llamaCpp: (tokens: number, window: number) => ({
    status: 400,
    body: {
      error: {
        code: 400,
        message: "the request exceeds the available context size, try increasing it",
        type: "exceed_context_size_error",
        n_prompt_tokens: tokens,
        n_ctx: window,
      },
    },
  }),
  openrouter: (tokens: number, window: number) => ({
    status: 400,
    body: {
      error: {
        message: `This endpoint's maximum context length is ${window} tokens. However, you requested about ${tokens} tokens (${tokens} of text input). Please reduce the length of either one.`,
        code: 400,
      },
    },
  }),
  mistral: (tokens: number, window: number) => ({
    status: 400,
    body: {
      object: "error",
      message: `Prompt contains ${tokens} tokens and 0 draft tokens, too large for model with ${window} maximum context length`,
      type: "invalid_request_prompt",
    },
  }),
  xai: (tokens: number, window: number) => ({
    status: 400,
    body: {
      code: "Client specified an invalid argument",
      error: `This model's maximum prompt length is ${window} but the request contains ${tokens} tokens.`,
    },
  }),
  fireworks: (tokens: number, window: number) => ({
    status: 400,
    body: {
      error: {
        object: "error",
        type: "invalid_request_error",
        message: `The prompt is too long: ${tokens}, model maximum context length: ${window - 1}`,
      },
    },
  }),
  groq: (tokens: number, window: number) => ({
    status: 413,
    body: {
      error: {
        message: `Request too large for model \`m\` on tokens per minute (TPM): Limit ${window}, Requested ${tokens}, please reduce your message size and try again.`,
        type: "tokens",
        code: "rate_limit_exceeded",
      },
    },
  }),
  /** A proxy that says nothing of use. */
  plain413: () => ({
    status: 413,
    headers: { "content-type": "text/html" },
    body: "<h1>413 Request Entity Too Large</h1>",
  }),
} satisfies Record<string, (tokens: number, window: number) => UpstreamStep>;

export type Dialect = keyof typeof dialects;

/** Tokens of a prompt, as this endpoint counts them. */
export function promptTokens({ messages, tools = [] }: JsonObject): number {
  return Math.ceil((JSON.stringify(messages).length + JSON.stringify(tools).length) / 4);
}

export const isSummary = ({ body }: UpstreamRequest): boolean => JSON.stringify(body.messages).includes("You sum up");

/** Refuses what is too long, counts what is not, and leaves the answer to `answer`. */
export function withWindow(
  window: number,
  answer: (request: UpstreamRequest, number: number) => UpstreamStep,
  dialect: Dialect = "openai",
): (request: UpstreamRequest, number: number) => UpstreamStep {
  return (request, number) => {
    const tokens = promptTokens(request.body);
    if (tokens > window) return dialects[dialect](tokens, window);
    const usage = { prompt_tokens: tokens, completion_tokens: 20, total_tokens: tokens + 20 };
    return { usage, ...answer(request, number) };
  };
}
