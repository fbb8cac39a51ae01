/**
 * Sessions of the protocols before 2026-07-28, for clients that can be asked something.
 *
 * Invariant: a session's id says, signed, who it belongs to and what its client can do: after a restart, or when it had
 * to make room, it is made anew from the id alone, so no client ever has to begin again. An id authenticates nobody.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { McpServer, Server, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { McpRequest } from "../../types/mcp.ts";
import { type Client, type Factory, refusal } from "./serving.ts";

interface Session {
  transport: WebStandardStreamableHTTPServerTransport;
  server: McpServer | Server;
  /** Requests that are being answered. */
  open: number;
  usedAt: number;
}

export interface SessionsOptions {
  sdk: typeof import("@modelcontextprotocol/server");
  key: Uint8Array;
  factory: Factory;
}

/** Held at once; the one that was not used for the longest time makes room. */
const MOST = 1_000;
const IDLE = 30 * 60_000;
const NOWHERE = "http://localhost/mcp";

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #held = new Map<string, Promise<Session>>();
  /** Ended by their clients: they are not made anew. */
  readonly #ended = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** The answer to the `initialize` that begins one. */
  async open(client: Client, request: McpRequest): Promise<Response> {
    const id = this.#name(client, request.caller.owner);
    const session = await this.#make(id, client, request);
    this.#keep(id, Promise.resolve(session));
    return this.#hand(session, request);
  }

  async answer(id: string, request: McpRequest): Promise<Response> {
    const client = this.#read(id, request.caller.owner);
    if (!client || this.#ended.has(id)) return refusal(404, -32_001, "Session not found");
    if (request.method === "DELETE") {
      this.#ended.add(id);
      const [first = ""] = this.#ended;
      if (this.#ended.size > 10 * MOST) this.#ended.delete(first);
      const held = this.#held.get(id);
      this.#held.delete(id);
      if (held) await (await held).server.close();
      return new Response(null, { status: 200 });
    }
    let held = this.#held.get(id);
    if (!held) {
      held = this.#revive(id, client, request);
      held.catch(() => this.#held.delete(id));
    }
    this.#keep(id, held);
    return this.#hand(await held, request);
  }

  async #hand(session: Session, { method, headers, body }: McpRequest): Promise<Response> {
    session.usedAt = performance.now();
    session.open++;
    try {
      const web = new Request(NOWHERE, { method, headers, ...(method === "POST" && { body: "{}" }) });
      return await session.transport.handleRequest(web, method === "POST" ? { parsedBody: body } : {});
    } finally {
      session.open--;
    }
  }

  async #make(id: string, client: Client, { caller }: McpRequest): Promise<Session> {
    const { sdk, factory } = this.#options;
    const server = await factory({ era: "legacy", caller, client });
    const transport = new sdk.WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id });
    await server.connect(transport);
    return { transport, server, open: 0, usedAt: performance.now() };
  }

  /** As if the client had begun it just now. */
  async #revive(id: string, client: Client, request: McpRequest): Promise<Session> {
    const session = await this.#make(id, client, request);
    const { name, version, protocolVersion, capabilities } = client;
    const say = async (message: JsonObject) => {
      const headers = {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-session-id": id,
      };
      const web = new Request(NOWHERE, { method: "POST", headers, body: "{}" });
      const parsedBody = { jsonrpc: "2.0", ...message };
      await (await session.transport.handleRequest(web, { parsedBody })).text();
    };
    const clientInfo = { name, version };
    await say({ id: "revived", method: "initialize", params: { protocolVersion, capabilities, clientInfo } });
    await say({ method: "notifications/initialized" });
    return session;
  }

  #keep(id: string, session: Promise<Session>): void {
    this.#held.delete(id);
    this.#held.set(id, session);
    this.#timer ??= setInterval(() => void this.#sweep().catch(() => undefined), 60_000).unref();
    if (this.#held.size > MOST) this.#sweep().catch(() => undefined);
  }

  async #sweep(): Promise<void> {
    let left = this.#held.size - MOST;
    const before = performance.now() - IDLE;
    for (const [id, held] of this.#held) {
      const session = await held.catch(() => undefined);
      if (session && (session.open > 0 || (left <= 0 && session.usedAt > before))) continue;
      left--;
      this.#held.delete(id);
      await session?.server.close();
    }
  }

  #name({ name, version, protocolVersion, capabilities }: Client, owner: string): string {
    // Only what is asked for later: a client's experiments are not carried around.
    const { elicitation, sampling, roots } = capabilities;
    const known = { ...(elicitation && { elicitation }), ...(sampling && { sampling }), ...(roots && { roots }) };
    const facts = [randomBytes(12).toString("base64url"), owner, name, version, protocolVersion, known];
    const text = Buffer.from(JSON.stringify(facts)).toString("base64url");
    return `${text}.${this.#sign(text)}`;
  }

  #sign(text: string): string {
    return createHmac("sha256", this.#options.key)
      .update(`session\n${text}`)
      .digest()
      .subarray(0, 16)
      .toString("base64url");
  }

  #read(id: string, owner: string): Client | undefined {
    const [text = "", signature = ""] = id.length > 4_000 ? [] : id.split(".");
    const right = Buffer.from(this.#sign(text));
    const given = Buffer.from(signature);
    if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
    const facts: unknown[] = JSON.parse(Buffer.from(text, "base64url").toString());
    const [, of, name, version, protocolVersion, capabilities] = facts;
    if (of !== owner) return undefined;
    return {
      name: String(name),
      version: String(version),
      protocolVersion: String(protocolVersion),
      capabilities: isJsonObject(capabilities) ? capabilities : {},
    };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const sessions = await Promise.allSettled(this.#held.values());
    this.#held.clear();
    for (const session of sessions) if (session.status === "fulfilled") await session.value.server.close();
  }
}
