/**
 * Logins under way: begun by a door, finished by whoever brings back the state.
 *
 * Invariant: a state is 256 random bits, is good for one use and ten minutes, and for the redirect address that it was
 * made with; the loopback listener hears 127.0.0.1 alone, knows one path, and is gone when the login is.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { LoginAnswer, LoginStart } from "../types/app.ts";
import { RotundaError } from "../types/error.ts";
import { CALLBACK_HEADERS, CALLBACK_PATH, callbackPage } from "../util/callback-page.ts";
import { nodeHttp } from "../util/node-http.ts";
import { visible } from "../util/text.ts";
import { describe } from "./failures.ts";
import type { OAuthAccount } from "./oauth-account.ts";
import type { LoginAttempt } from "./oauth-login.ts";

/** Milliseconds in which a person can log in. */
const PATIENCE = 10 * 60_000;
const MAX_PENDING = 100;

interface Pending {
  account: OAuthAccount;
  attempt: LoginAttempt;
  expiresAt: number;
}

export class Logins {
  readonly #pending = new Map<string, Pending>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Throws `hub_unreachable` with the reason where there is no login to be had, `usage` where none is needed. */
  async begin(account: OAuthAccount, redirectUrl: string): Promise<LoginStart> {
    if (account.config.flow === "client_credentials")
      throw new RotundaError("usage", `MCP server ${account.server} is logged in to without a person`);
    const { beginLogin } = await import("./oauth-login.ts");
    const state = randomBytes(32).toString("base64url");
    const attempt = await told(account, () => beginLogin(account, redirectUrl, state));
    const authorizationUrl = attempt.authorizationUrl?.href ?? "";
    const expiresAt = this.#now() + PATIENCE;
    for (const [known, { expiresAt: end }] of this.#pending) {
      if (end < this.#now() || this.#pending.size >= MAX_PENDING) this.#pending.delete(known);
    }
    this.#pending.set(state, { account, attempt, expiresAt });
    return { authorizationUrl, state, redirectUrl, expiresAt };
  }

  /** The server of a login under way; undefined for a state that is unknown, used or too old. */
  serverOf(state: string): string | undefined {
    const pending = this.#pending.get(state);
    return pending && pending.expiresAt >= this.#now() ? pending.account.server : undefined;
  }

  /** Throws `not_found` for a state that is not under way, `hub_unreachable` where the login was refused. */
  async finish(answer: LoginAnswer): Promise<OAuthAccount> {
    const { state, code, iss, error } = answer;
    const server = this.serverOf(state);
    const pending = this.#pending.get(state);
    this.#pending.delete(state);
    if (!pending || server === undefined || (answer.server !== undefined && answer.server !== server))
      throw new RotundaError(
        "not_found",
        "no login is under way with this state: it was used, or ten minutes are over",
      );
    const { account, attempt } = pending;
    const { finishLogin } = await import("./oauth-login.ts");
    await told(account, async () => {
      if (code === undefined || code === "") throw new Error(`it was refused${reason(error)}`);
      await finishLogin(account, attempt, code, iss);
    });
    return account;
  }

  /** The whole way, with a listener of our own for the answer. Rejects when time or patience is over. */
  async throughLoopback(
    account: OAuthAccount,
    show: (start: LoginStart) => void,
    signal: AbortSignal,
  ): Promise<OAuthAccount> {
    const { redirectPort: configured } = account.config;
    const listener = await Loopback.open(configured ?? knownPort(account), configured !== undefined);
    try {
      const start = await this.begin(account, listener.redirectUrl);
      show(start);
      const late = AbortSignal.timeout(PATIENCE);
      const answer = await listener.answer(start.state, AbortSignal.any([signal, late]));
      try {
        const finished = await this.finish(answer.given);
        answer.reply(true);
        return finished;
      } catch (error) {
        answer.reply(false);
        throw error;
      }
    } finally {
      await listener.close();
    }
  }
}

/** A code of the registry, which says nothing of the sender's own; else nothing. */
function reason(error: string | undefined): string {
  return error !== undefined && /^[a-z_]{1,40}$/.test(error) ? ` (${error})` : "";
}

async function told<T>(account: OAuthAccount, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RotundaError) throw error;
    const message = `login to ${account.server}: ${visible(describe(error)).slice(0, 1000)}`;
    throw new RotundaError("hub_unreachable", message, { cause: error });
  }
}

/** The port that an earlier login's client was registered with: servers that compare exactly know no other. */
function knownPort(account: OAuthAccount): number {
  const { login, client = login?.client } = account.store.read();
  const known = client && "redirect_uris" in client && Array.isArray(client.redirect_uris) ? client.redirect_uris : [];
  for (const uri of known) {
    if (!URL.canParse(uri)) continue;
    const { hostname, port, pathname } = new URL(uri);
    if (hostname === "127.0.0.1" && pathname === CALLBACK_PATH && port !== "") return Number(port);
  }
  return 0;
}

interface Heard {
  given: LoginAnswer;
  reply(done: boolean): void;
}

class Loopback {
  readonly #server: Server;
  readonly redirectUrl: string;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.redirectUrl = `http://127.0.0.1:${port}${CALLBACK_PATH}`;
  }

  /** On this port; where it is taken and need not be `exact`, on any. */
  static async open(port: number, exact: boolean): Promise<Loopback> {
    const server = nodeHttp().createServer();
    const listen = (at: number) =>
      new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(at, "127.0.0.1", () => {
          server.off("error", reject);
          resolve();
        });
      });
    await listen(port).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE") throw error;
      if (exact) throw new RotundaError("usage", `port ${port} of the login is taken by another program`);
      return listen(0);
    });
    return new Loopback(server, (server.address() as AddressInfo).port);
  }

  /** The first request that brings this state. All others are answered, and mean nothing. */
  answer(state: string, signal: AbortSignal): Promise<Heard> {
    return new Promise((resolve, reject) => {
      const gone = () => reject(new RotundaError("cancelled", "the login was not finished in time, or given up"));
      if (signal.aborted) gone();
      signal.addEventListener("abort", gone, { once: true });
      let heard = false;
      this.#server.on("request", (request, response) => {
        const given = answerIn(request);
        if (heard || given?.state !== state) {
          page(response, 404, false);
          return;
        }
        heard = true;
        resolve({ given, reply: (done) => page(response, done ? 200 : 400, done) });
      });
    });
  }

  async close(): Promise<void> {
    this.#server.closeIdleConnections();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    // A page that is being sent is sent; a browser that keeps its connection does not keep us.
    setTimeout(() => this.#server.closeAllConnections(), 500).unref();
    await closed;
  }
}

function answerIn({ method, url = "" }: IncomingMessage): LoginAnswer | undefined {
  if (method !== "GET" || !URL.canParse(url, "http://127.0.0.1")) return undefined;
  const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
  if (pathname !== CALLBACK_PATH) return undefined;
  return loginAnswer(searchParams);
}

/** What an authorization server wrote behind the redirect address. */
function loginAnswer(parameters: URLSearchParams): LoginAnswer {
  const answer: LoginAnswer = { state: parameters.get("state") ?? "" };
  for (const name of ["code", "iss", "error"] as const) {
    const value = parameters.get(name);
    if (value !== null) answer[name] = value;
  }
  return answer;
}

function page(response: ServerResponse, status: number, done: boolean): void {
  response.writeHead(status, { ...CALLBACK_HEADERS, "content-type": "text/html; charset=utf-8", connection: "close" });
  response.end(callbackPage(done));
}
