/**
 * A client of the gateway: its requests, each handed on to the server that it is for.
 *
 * Invariant: a call of a tool goes out only after the engine's rules have been asked, and stands in the audit log; what
 * a server answers is altered only where a name, an address, a secret or its length has to be.
 */
import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { RequestStateCodec, ServerContext } from "@modelcontextprotocol/server";
import type { App } from "../../types/app.ts";
import { toRotundaError } from "../../types/error.ts";
import { type GatewayAnswer, type GatewayCaller, GatewayError, type GatewayServer } from "../../types/gateway.ts";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { McpCaller } from "../../types/mcp.ts";
import { canonicalJson } from "../../util/canonical.ts";
import { TOOL_SEARCH } from "../../util/tool-search.ts";
import { type Catalog, type Found, type FoundTool, pageOf, wrap } from "./gateway-catalog.ts";
import { anyJson, Exchange, type ExchangeOptions, type Held, PATIENCE } from "./gateway-exchange.ts";
import type { Outputs } from "./gateway-outputs.ts";
import { permissionForm, permissionOf } from "./gateway-permission.ts";
import { CALL_TOOL, foundText, READ_OUTPUT, readOutputTool, searchingTools, tokensOf } from "./gateway-tools.ts";

/** What goes to the client with a question, and back, signed. */
export interface GatewayState {
  /** The request that it belongs to. */
  of: string;
  /** A person was asked whether it may be made. */
  asked?: true;
  /** And has allowed it. */
  allowed?: true;
  /** The server's own state. */
  upstream?: string;
  /** The exchange that is held. */
  held?: string;
}

export interface GatewaySessionOptions {
  app: App;
  caller: McpCaller;
  catalog: Catalog;
  profile: string | undefined;
  outputs: Outputs;
  held: Held;
  codec: RequestStateCodec<GatewayState>;
  exchange(context: ServerContext): ExchangeOptions;
  /** Set where the client's protocol does not know structured results that are no objects. */
  project?: (result: JsonObject, outputSchema: JsonObject | undefined) => JsonObject;
}

const INVALID_PARAMS = -32_602;
const MAX_ROUNDS = 10;
const DEFAULT_LIMIT = 50_000;
const SEARCH_ABOVE = 10_000;
const PERMISSION = "permission";

export class GatewaySession {
  readonly #options: GatewaySessionOptions;

  constructor(options: GatewaySessionOptions) {
    this.#options = options;
  }

  get #settings() {
    return this.#options.app.config.mcp.gateway ?? {};
  }

  get #limit(): number {
    return this.#settings.outputLimit ?? DEFAULT_LIMIT;
  }

  // ---- lists

  async listTools({ cursor }: JsonObject): Promise<JsonObject> {
    const { catalog, app } = this.#options;
    const tools = await catalog.knownTools();
    const { toolSearch = tokensOf(tools) > (app.config.toolSearchAbove ?? SEARCH_ABOVE) } = this.#settings;
    if (toolSearch) return { tools: searchingTools(tools) };
    const { entries, ...more } = pageOf([...(await catalog.listTools()), readOutputTool], cursor);
    return { tools: entries, ...more };
  }

  async listPrompts({ cursor }: JsonObject): Promise<JsonObject> {
    const { entries, ...more } = pageOf(await this.#options.catalog.listPrompts(), cursor);
    return { prompts: entries, ...more };
  }

  async listResources({ cursor }: JsonObject): Promise<JsonObject> {
    const { entries, ...more } = pageOf(await this.#options.catalog.listResources(), cursor);
    return { resources: entries, ...more };
  }

  async listTemplates({ cursor }: JsonObject): Promise<JsonObject> {
    const { entries, ...more } = pageOf(await this.#options.catalog.listTemplates(), cursor);
    return { resourceTemplates: entries, ...more };
  }

  // ---- requests

  async getPrompt(params: JsonObject, context: ServerContext): Promise<JsonObject> {
    const found = await this.#options.catalog.findPrompt(String(params.name));
    return this.#exchange("prompts/get", { ...params, name: found.own }, found, context);
  }

  async readResource(params: JsonObject, context: ServerContext): Promise<JsonObject> {
    const found = await this.#options.catalog.findResource(String(params.uri));
    return this.#exchange("resources/read", { ...params, uri: found.own }, found, context);
  }

  async complete(params: JsonObject, context: ServerContext): Promise<JsonObject> {
    const { catalog } = this.#options;
    const { ref } = params;
    if (!isJsonObject(ref)) throw new GatewayError(INVALID_PARAMS, "ref is missing");
    const prompt = ref.type === "ref/prompt";
    const found = prompt ? await catalog.findPrompt(String(ref.name)) : await catalog.findResource(String(ref.uri));
    const own = { ...ref, [prompt ? "name" : "uri"]: found.own };
    return this.#exchange("completion/complete", { ...params, ref: own }, found, context);
  }

  /** A request that is no call of a tool. */
  async #exchange(method: string, params: JsonObject, found: Found, context: ServerContext): Promise<JsonObject> {
    const of = () => identityOf(method, params);
    const state = stateIn(context, of);
    return this.#inRounds(of, state, context, (exchange) => async () => {
      const { result } = await this.#send(found.server, method, params, state, context, exchange.caller());
      return this.#redacted(this.#addressed(result, found.server));
    });
  }

  // ---- tools

  async callTool(params: JsonObject, context: ServerContext): Promise<JsonObject> {
    const { name } = params;
    if (typeof name !== "string") throw new GatewayError(INVALID_PARAMS, "name is missing");
    const input = isJsonObject(params.arguments) ? params.arguments : {};
    if (name === READ_OUTPUT) return this.#readOutput(input);
    if (name === TOOL_SEARCH) return this.#search(input);
    if (name === CALL_TOOL) {
      const called = { ...params, name: input.name ?? "", arguments: input.arguments ?? {} };
      if (called.name === CALL_TOOL) throw new GatewayError(INVALID_PARAMS, `${CALL_TOOL} does not call itself`);
      return this.callTool(called, context);
    }
    const found = await this.#options.catalog.findTool(name);
    try {
      return await this.#callTool({ ...params, name: found.own }, input, found, context);
    } catch (error) {
      // What is wrong with the request itself is no result of the tool.
      if (error instanceof GatewayError && (error.answered || error.code === INVALID_PARAMS)) throw error;
      return failed(this.#options.app.redact(messageOf(error)));
    }
  }

  async #callTool(params: JsonObject, input: JsonObject, found: FoundTool, context: ServerContext) {
    const { app, caller } = this.#options;
    const of = () => identityOf("tools/call", { server: found.server.name, name: found.own, arguments: input });
    const state = stateIn(context, of);
    const judged = state.held === undefined ? await this.#judge(found, input, of, state, context) : undefined;
    if (judged && "result" in judged) return judged.result;
    const allowed = (judged !== undefined && "asked" in judged) || state.allowed === true;
    const options = { workspace: caller.workspace, by: caller.owner, door: "mcp", ...(judged && { judged }) };
    return this.#inRounds(of, { ...state, ...(allowed && { allowed: true }) }, context, (exchange) => async () => {
      let answer: GatewayAnswer | undefined;
      let sent = "";
      const performed = await app.engine.call(found.tool.name, input, {
        ...options,
        signal: exchange.signal,
        perform: async (signal) => {
          answer = await this.#send(found.server, "tools/call", params, state, context, exchange.caller(signal));
          sent = JSON.stringify(answer.result);
          return { text: sent, ...(answer.result.isError === true && { isError: true }) };
        },
      });
      if (!answer) throw new Error("the call was not made");
      const clean: JsonObject = performed.text === sent ? answer.result : JSON.parse(performed.text);
      return this.#shown(clean, answer.generation, found);
    });
  }

  /** Whether it may be called; the person at the client is asked where the rules say so. */
  async #judge(found: FoundTool, input: JsonObject, of: () => string, state: GatewayState, context: ServerContext) {
    if (state.allowed) return { effect: "allow" as const, why: "allowed before" };
    const { app, caller, profile, exchange } = this.#options;
    const { tool } = found;
    // Whoever calls has decided to call: what no rule names is not asked about once more.
    const mode = (profile === undefined ? undefined : (await app.profile(profile)).mode) ?? "auto";
    const verdict = await app.engine.judge(tool.name, input, {
      workspace: caller.workspace,
      mode,
      ...(profile !== undefined && { profile }),
    });
    if (verdict.effect !== "ask") return verdict;
    const { capabilities, generation } = exchange(context);
    const form = permissionForm(tool.name, input, verdict.why);
    const decided = (answer: unknown) => {
      const decision = permissionOf(answer);
      if (decision === "allow" && tool.changed !== undefined) found.server.accept(found.own);
      const why = decision === "allow" ? "the person at the client allowed it" : "the person at the client denied it";
      return { effect: decision, why, asked: true };
    };
    if (state.asked) return decided(context.mcpReq.inputResponses?.[PERMISSION]);
    const { elicitation } = capabilities;
    const forms =
      isJsonObject(elicitation) && (elicitation.form !== undefined || Object.keys(elicitation).length === 0);
    if (!forms || !caller.may("approve")) return { ...verdict, why: `${verdict.why}. ${REMEDY(tool.name)}` };
    if (generation === "legacy") {
      const { signal } = context.mcpReq;
      const question = { method: "elicitation/create", params: { ...form } };
      return decided(
        await context.mcpReq.send(question, anyJson, { timeout: PATIENCE, signal }).catch(() => undefined),
      );
    }
    const requestState = await this.#options.codec.mint({ of: of(), asked: true }, context);
    const question = { method: "elicitation/create", params: { mode: "form", ...form } };
    return { result: { resultType: "input_required", inputRequests: { [PERMISSION]: question }, requestState } };
  }

  async #shown(result: JsonObject, generation: GatewayAnswer["generation"], found: FoundTool): Promise<JsonObject> {
    if (result.resultType === "input_required") return result;
    const { outputs, caller, project } = this.#options;
    const cut = outputs.cut(this.#addressed(result, found.server), this.#limit, caller.owner);
    if (!project || generation !== "modern" || result.structuredContent === undefined) return cut;
    const listed = await found.server.list("tools").catch(() => []);
    const schema = listed.find(({ name }) => name === found.own)?.outputSchema;
    return project(cut, isJsonObject(schema) ? schema : undefined);
  }

  async #search(input: JsonObject): Promise<JsonObject> {
    const { catalog } = this.#options;
    const tools = await catalog.knownTools();
    const names = new Map(
      await Promise.all(tools.map(async (tool) => [tool, await catalog.exposedName(tool)] as const)),
    );
    return text(foundText(tools, names, input));
  }

  #readOutput(input: JsonObject): JsonObject {
    const { outputs, caller } = this.#options;
    const output = outputs.read(input, this.#limit, caller.owner);
    return output === undefined ? failed("There is no such output, or it is no longer kept.") : text(output);
  }

  // ---- what they have in common

  /** A new exchange, or the one that this request goes on with. */
  async #inRounds(
    of: () => string,
    state: GatewayState,
    context: ServerContext,
    work: (exchange: Exchange) => () => Promise<JsonObject>,
  ): Promise<JsonObject> {
    const { held, caller, codec, exchange: facts } = this.#options;
    let exchange: Exchange;
    if (state.held === undefined) {
      exchange = new Exchange(facts(context), context);
      exchange.begin(work(exchange));
    } else {
      const before = held.take(state.held, caller.owner);
      if (!before) throw new GatewayError(INVALID_PARAMS, "The call that this answers is over: make it anew.");
      exchange = before;
    }
    const result = await exchange.round(context, context.mcpReq.inputResponses);
    if (result.resultType !== "input_required") return result;
    const { requestState: upstream, ...rest } = result;
    const next: GatewayState = { of: of(), ...(state.allowed && { allowed: true }) };
    if (exchange.waits) next.held = held.hold(exchange);
    if (typeof upstream === "string") next.upstream = upstream;
    if (!next.held && !next.allowed && next.upstream === undefined) return result;
    return { ...rest, requestState: await codec.mint(next, context) };
  }

  /** For a client of the older protocols, also what a newer server asks in place of its answer. */
  async #send(
    server: GatewayServer,
    method: string,
    params: JsonObject,
    state: GatewayState,
    context: ServerContext,
    caller: GatewayCaller,
  ): Promise<GatewayAnswer> {
    const { _meta: meta, ...rest } = params;
    const { progressToken: _token, ...kept } = isJsonObject(meta) ? meta : {};
    const sent = { ...rest, ...(Object.keys(kept).length > 0 && { _meta: kept }) };
    const { inputResponses } = context.mcpReq;
    const came = caller.generation === "modern" && inputResponses && !state.asked;
    let answer = await server.request(
      method,
      {
        ...sent,
        ...(came && { inputResponses: inputResponses as JsonObject }),
        ...(state.upstream !== undefined && { requestState: state.upstream }),
      },
      caller,
    );
    for (let round = 0; caller.generation === "legacy" && answer.result.resultType === "input_required"; round++) {
      if (round === MAX_ROUNDS) throw new GatewayError(-32_603, `MCP server ${server.name} asks again and again`);
      const { inputRequests, requestState } = answer.result;
      const answers = await this.#answers(isJsonObject(inputRequests) ? inputRequests : {}, caller);
      const again = { inputResponses: answers, ...(requestState !== undefined && { requestState }) };
      answer = await server.request(method, { ...sent, ...again }, caller);
    }
    return answer;
  }

  async #answers(requests: JsonObject, caller: GatewayCaller): Promise<JsonObject> {
    const answers: JsonObject = {};
    if (Object.keys(requests).length === 0) await sleep(1_000, undefined, { signal: caller.signal });
    for (const [key, request] of Object.entries(requests)) {
      if (!isJsonObject(request)) continue;
      const params = isJsonObject(request.params) ? request.params : {};
      // The older protocol has an id for what happens at an address.
      const known = params.mode === "url" ? { elicitationId: randomUUID(), ...params } : params;
      answers[key] = await caller.ask(String(request.method), known, caller.signal);
    }
    return answers;
  }

  /** With the addresses that lead back through the gateway. */
  #addressed(result: JsonObject, server: GatewayServer): JsonObject {
    if (!this.#options.catalog.wraps) return result;
    const block = (one: unknown): unknown => {
      if (!isJsonObject(one)) return one;
      if (one.type === "resource_link" && typeof one.uri === "string") return { ...one, uri: wrap(server, one.uri) };
      if (one.type === "resource" && isJsonObject(one.resource)) return { ...one, resource: block(one.resource) };
      if (one.type === undefined && typeof one.uri === "string") return { ...one, uri: wrap(server, one.uri) };
      return isJsonObject(one.content) ? { ...one, content: block(one.content) } : one;
    };
    const parts = (["content", "contents", "messages"] as const).flatMap((key) => {
      const list = result[key];
      return Array.isArray(list) ? [[key, list.map(block)] as const] : [];
    });
    return { ...result, ...(Object.fromEntries(parts) as JsonObject) };
  }

  #redacted(result: JsonObject): JsonObject {
    const written = JSON.stringify(result);
    const clean = this.#options.app.redact(written);
    return clean === written ? result : JSON.parse(clean);
  }
}

const REMEDY = (tool: string) =>
  `Nobody can be asked through this client: a rule has to allow it (permissions: {allow: ["${tool}"]} in rotunda.yaml)`;

/** The request that a state is for: another one is not answered with it. */
function identityOf(method: string, params: JsonObject): string {
  const { _meta, ...rest } = params;
  return createHash("sha256")
    .update(`${method}\n${canonicalJson(rest)}`)
    .digest("base64url");
}

function stateIn(context: ServerContext, of: () => string): GatewayState {
  const state = context.mcpReq.requestState<GatewayState>();
  if (!state) return { of: "" };
  if (state.of !== of()) throw new GatewayError(INVALID_PARAMS, "Invalid or expired requestState");
  return state;
}

function messageOf(error: unknown): string {
  if (error instanceof GatewayError) return `[Tool call failed: ${error.message}]`;
  const { message, remedy } = toRotundaError(error);
  return `[Tool call failed: ${message}${remedy === undefined ? "" : ` ${remedy}`}]`;
}

function text(words: string): JsonObject {
  return { content: [{ type: "text", text: words }] };
}

function failed(words: string): JsonObject {
  return { ...text(words), isError: true };
}
