/**
 * An endpoint: one server of MCP over HTTP, for clients of every generation on one address.
 *
 * Invariant: the protocol of 2026-07-28 is stateless, a request is answered by an instance of its own. Of the older
 * ones, a client that can be asked something (elicitation, sampling) has a session; every other one has none, and gets
 * one JSON body where nothing has to be said before the answer.
 */
import { isJsonObject } from "../../types/json.ts";
import type { McpCaller, McpRequest } from "../../types/mcp.ts";
import { clientOf, type Factory, refusal, type Serving } from "./serving.ts";
import { Sessions } from "./sessions.ts";

export interface EndpointOptions {
  factory: Factory;
  /** At least 32 bytes. */
  key: Uint8Array;
  /**
   * Which clients of the older protocols have a session. "asked" (default): those that can be asked something; "all":
   * every one, and their answers are always streams.
   */
  sessions?: "asked" | "all";
  onerror?: (error: Error) => void;
}

type Sdk = typeof import("@modelcontextprotocol/server");
type Handler = ReturnType<Sdk["createMcpHandler"]>;

export class Endpoint {
  readonly #options: EndpointOptions;
  readonly #sdk: Sdk;
  readonly #handler: Handler;
  readonly #sessions: Sessions;
  /** Of modern requests, by what the SDK carries through as the token. */
  readonly #callers = new Map<string, McpCaller>();
  #count = 0;

  static async create(options: EndpointOptions): Promise<Endpoint> {
    return new Endpoint(options, await import("@modelcontextprotocol/server"));
  }

  private constructor(options: EndpointOptions, sdk: Sdk) {
    this.#options = options;
    this.#sdk = sdk;
    const { onerror } = options;
    this.#sessions = new Sessions({ sdk, key: options.key, factory: options.factory });
    this.#handler = sdk.createMcpHandler(
      ({ authInfo }) => {
        const caller = this.#callers.get(authInfo?.token ?? "");
        if (!caller) throw new Error("a request without its caller");
        return options.factory({ era: "modern", caller, client: undefined });
      },
      { legacy: "reject", ...(onerror && { onerror }) },
    );
  }

  /** Says to whoever listens that something has changed. */
  get notify(): Handler["notify"] {
    return this.#handler.notify;
  }

  async answer(request: McpRequest): Promise<Response> {
    const { method, headers, body, signal } = request;
    const web = new Request("http://localhost/mcp", {
      method,
      headers,
      signal,
      // The body is handed over parsed; a text stands in for it where the SDK looks whether there is one.
      ...(method === "POST" && { body: "{}" }),
    });
    if (method !== "POST" || (await this.#sdk.isLegacyRequest(web, body ?? null))) return this.#legacy(request);
    const token = String(this.#count++);
    this.#callers.set(token, request.caller);
    try {
      return await this.#handler.fetch(web, {
        parsedBody: body,
        authInfo: { token, clientId: request.caller.owner, scopes: [] },
      });
    } finally {
      this.#callers.delete(token);
    }
  }

  #legacy(request: McpRequest): Promise<Response> | Response {
    const { method, headers, body, caller } = request;
    const id = headers.get("mcp-session-id");
    if (id !== null) return this.#sessions.answer(id, request);
    if (method !== "POST") return refusal(405, -32_000, "Method not allowed.", { allow: "POST" });
    const client = clientOf(body);
    const all = this.#options.sessions === "all";
    if (client && (all || client.capabilities.elicitation || client.capabilities.sampling)) {
      return this.#sessions.open(client, request);
    }
    return this.#once(request, { era: "legacy", caller, client });
  }

  /** One request without a session: an instance of its own. */
  async #once({ headers, body }: McpRequest, serving: Serving): Promise<Response> {
    const server = await this.#options.factory(serving);
    const transport = new this.#sdk.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: !wantsNews(body) });
    await server.connect(transport);
    // Without the signal: for these protocols a connection that is lost cancels nothing.
    const web = new Request("http://localhost/mcp", { method: "POST", headers, body: "{}" });
    const response = await transport.handleRequest(web, { parsedBody: body });
    return whenRead(response, () => server.close());
  }

  async close(): Promise<void> {
    await Promise.all([this.#handler.close(), this.#sessions.close()]);
  }
}

/** Whether a request asks to be told of its progress. */
function wantsNews(body: unknown): boolean {
  const messages = Array.isArray(body) ? body : [body];
  return messages.some((message) => {
    const params = isJsonObject(message) ? message.params : undefined;
    const meta = isJsonObject(params) ? params._meta : undefined;
    return isJsonObject(meta) && meta.progressToken !== undefined;
  });
}

/** The same answer; `done` is called once its body was read to the end, or will not be read. */
function whenRead(response: Response, done: () => Promise<void>): Response {
  const finish = () => void done().catch(() => undefined);
  if (!response.body || !response.headers.get("content-type")?.startsWith("text/event-stream")) {
    finish();
    return response;
  }
  const reader = response.body.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done: ended, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      if (value) controller.enqueue(value);
      if (!ended) return;
      controller.close();
      finish();
    },
    async cancel(reason) {
      await reader.cancel(reason).catch(() => undefined);
      // What runs for it runs on; the instance goes when it has answered.
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
}
