/**
 * OAuth account: the login of one http server, as its requests need it.
 *
 * Invariant: tokens are renewed by one process at a time and before they expire; a token goes to the configured server
 * and to the authorization server that made it, and nowhere else; what is refused for good is forgotten, so that
 * "needs login" is the same fact in every process: a file with a challenge and no login.
 */
import type { AuthProvider, OAuthTokens, StoredOAuthClientInformation } from "@modelcontextprotocol/client";
import type { OAuthConfig, ServerConfig } from "../types/config.ts";
import { CallFailure, describe } from "./failures.ts";
import type { HubEnvironment } from "./hub-types.ts";
import { clientAuthentication, scopes } from "./oauth-parts.ts";
import { type Challenge, OAuthStore, type StoredLogin, withoutLogin } from "./oauth-store.ts";

/** Milliseconds before its end at which a token is renewed; of short-lived ones the last fifth. */
const EARLY = 60_000;

/** A person must log in (again, or to more); the message names the remedy. */
export class LoginRequired extends Error {
  override readonly name = "LoginRequired";
  /** What the login lacks, where there is one. */
  readonly challenge: Challenge | undefined;

  constructor(message: string, challenge?: Challenge) {
    super(message);
    this.challenge = challenge;
  }
}

/** `secret` is told everything that is obtained or read, so that none of it is ever shown. */
type AccountOptions = Pick<HubEnvironment, "stateDir" | "clock" | "secret">;

/** Undefined where the server is not logged in to: stdio, `oauth: false`, a configured Authorization header. */
export function accountFor(config: ServerConfig, options: AccountOptions): OAuthAccount | undefined {
  if (config.transport !== "http" || config.url === undefined || config.oauth === false) return undefined;
  const header = Object.keys(config.headers ?? {}).some((name) => name.toLowerCase() === "authorization");
  if ((header && config.oauth === undefined) || !URL.canParse(config.url)) return undefined;
  return new OAuthAccount(config.name, config.url, config.oauth ?? {}, options);
}

export class OAuthAccount implements AuthProvider {
  readonly server: string;
  readonly url: string;
  readonly config: OAuthConfig;
  readonly store: OAuthStore;
  readonly #options: AccountOptions;
  /** By 401: the token that was refused. */
  readonly #refused = new WeakMap<Response, string>();

  constructor(server: string, url: string, config: OAuthConfig, options: AccountOptions) {
    this.server = server;
    this.url = url;
    this.config = config;
    this.#options = options;
    this.store = new OAuthStore(options.stateDir, { name: server, url });
  }

  /** To addresses that the server, or its authorization server, has named. */
  readonly fetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const { createGuardedFetch } = await import("./guarded-fetch.ts");
    return createGuardedFetch(this.url, this.config.privateHosts)(url, init);
  };

  get needsLogin(): boolean {
    const { login, challenge } = this.store.read();
    return login === undefined && challenge !== undefined;
  }

  get loggedIn(): boolean {
    return this.store.read().login !== undefined;
  }

  loginRequired(why = "needs a login", challenge?: Challenge): LoginRequired {
    return new LoginRequired(`the server ${this.server} ${why}: rotunda hub login ${this.server}`, challenge);
  }

  /** Before every request. Throws what keeps a renewal from being made, where the token is of no use any more. */
  async token(): Promise<string | undefined> {
    let { login } = this.store.read();
    if (login && this.#isDue(login) && login.tokens.refresh_token !== undefined) login = await this.#renewed(login);
    if (!login) return undefined;
    this.#options.secret(login.tokens.access_token);
    return login.tokens.access_token;
  }

  #isDue({ tokens, obtainedAt }: StoredLogin): boolean {
    const life = expiresIn(tokens);
    return life !== undefined && this.#options.clock.now() >= obtainedAt + Math.max(life - EARLY, 0.8 * life);
  }

  #isOver({ tokens, obtainedAt }: StoredLogin): boolean {
    const life = expiresIn(tokens);
    return life !== undefined && this.#options.clock.now() >= obtainedAt + life;
  }

  /** The renewed login; the old one where it cannot be renewed now and still counts; undefined where it is lost. */
  async #renewed(old: StoredLogin): Promise<StoredLogin | undefined> {
    try {
      return await this.#renew((login) => login.tokens.access_token === old.tokens.access_token);
    } catch (error) {
      if (!this.#isOver(old)) return old;
      const message = `the login to ${this.server} could not be renewed: ${describe(error)}`;
      throw new CallFailure("not_run", message, { cause: error });
    }
  }

  /** Under the lock: what another process has renewed in the meantime is taken as it is. */
  async #renew(isStale: (login: StoredLogin) => boolean): Promise<StoredLogin | undefined> {
    let result: StoredLogin | undefined;
    await this.store.change(async (file) => {
      result = file.login;
      if (!file.login || !isStale(file.login)) return undefined;
      const tokens = await this.#refresh(file.login);
      if (tokens === "no login" || tokens === "no client") {
        result = undefined;
        const { challenge = {} } = file;
        return tokens === "no client" ? { challenge } : withoutLogin(file, challenge);
      }
      result = {
        ...file.login,
        tokens: { ...tokens, issuer: file.login.issuer },
        obtainedAt: this.#options.clock.now(),
      };
      return { ...file, login: result };
    });
    return result;
  }

  /** What the authorization server does not know any more, or the new tokens. Throws where it could not be asked. */
  async #refresh(login: StoredLogin): Promise<OAuthTokens | "no login" | "no client"> {
    const { refresh_token: refreshToken } = login.tokens;
    if (refreshToken === undefined) return "no login";
    const { refreshAuthorization } = await import("@modelcontextprotocol/client");
    const { metadata, resource } = login;
    try {
      const tokens = await refreshAuthorization(login.authorizationServerUrl, {
        ...(metadata && { metadata }),
        clientInformation: this.withSecret(login.client),
        refreshToken,
        ...(resource !== undefined && { resource }),
        ...(await clientAuthentication(this.config)),
        fetchFn: this.fetch,
      });
      this.keepSecret(tokens);
      return { ...(login.tokens.scope !== undefined && { scope: login.tokens.scope }), ...tokens };
    } catch (error) {
      const lost = lostBy(error);
      if (lost) return lost;
      throw error;
    }
  }

  /** What the configuration says is not written down a second time. */
  withoutSecret(client: StoredOAuthClientInformation): StoredOAuthClientInformation {
    if (this.config.clientId === undefined) return client;
    return { client_id: client.client_id, ...(client.issuer !== undefined && { issuer: client.issuer }) };
  }

  withSecret(client: StoredOAuthClientInformation): StoredOAuthClientInformation {
    const { clientId, clientSecret } = this.config;
    if (clientId !== client.client_id || clientSecret === undefined) return client;
    return { ...client, client_secret: clientSecret };
  }

  keepSecret(tokens: OAuthTokens): void {
    for (const value of [tokens.access_token, tokens.refresh_token, tokens.id_token])
      if (value !== undefined) this.#options.secret(value);
  }

  /** What a request was sent with, where it is answered 401. */
  noteRefused(response: Response, authorization: string | null): void {
    const [, token] = /^Bearer (.+)$/i.exec(authorization ?? "") ?? [];
    if (token !== undefined) this.#refused.set(response, token);
  }

  /** A 401: makes sure that the next token is another one, or throws `LoginRequired`. */
  async onUnauthorized({ response }: { response: Response }): Promise<void> {
    const { extractWWWAuthenticateParams } = await import("@modelcontextprotocol/client");
    const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
    const challenge: Challenge = {
      ...(resourceMetadataUrl && { resourceMetadataUrl: resourceMetadataUrl.href }),
      ...(scope !== undefined && { scope }),
    };
    const refused = this.#refused.get(response);
    if (this.config.flow === "client_credentials") {
      const { logInAsClient } = await import("./oauth-login.ts");
      await logInAsClient(this, challenge, refused);
      return;
    }
    const login = await this.#renew(({ tokens }) => tokens.access_token === refused);
    if (login && login.tokens.access_token !== refused) return;
    await this.forget(refused, challenge);
    throw this.loginRequired();
  }

  /** The login with this token is of no use. One that somebody else has made since then stays. */
  async forget(token: string | undefined, challenge: Challenge = {}): Promise<void> {
    await this.store.change((file) => {
      if (file.login && token !== undefined && file.login.tokens.access_token !== token) return undefined;
      return withoutLogin(file, { ...file.challenge, ...challenge });
    });
  }

  /** Writes down what a login must bring. Where it is not enough for something only (`partly`), there still is one. */
  async note({ challenge }: LoginRequired, partly: boolean): Promise<void> {
    if (!challenge) {
      await this.forget(undefined);
      return;
    }
    await this.store.change((file) => {
      const { login, challenge: before } = file;
      const wanted = { ...before, ...challenge, ...scopes(before?.scope, login?.tokens.scope, challenge.scope) };
      return login && partly ? { ...file, challenge: wanted } : withoutLogin(file, wanted);
    });
  }

  /** It works without a login. */
  async settle(): Promise<void> {
    if (this.needsLogin) await this.store.change((file) => (file.login ? undefined : {}));
  }

  now(): number {
    return this.#options.clock.now();
  }
}

function expiresIn({ expires_in: seconds }: OAuthTokens): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

/** Errors of an authorization server after which only a person can help; undefined for any other. */
function lostBy(error: unknown): "no login" | "no client" | undefined {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "invalid_client" || code === "unauthorized_client") return "no client";
  return code === "invalid_grant" || code === "invalid_request" || code === "invalid_scope" ? "no login" : undefined;
}

/** Why nobody gets further without a person; undefined where a login would not help. */
export function loginNeed(error: unknown, account: OAuthAccount | undefined): LoginRequired | undefined {
  if (error instanceof LoginRequired) return error;
  if (!account || !(error instanceof Error)) return undefined;
  if (error.name === "UnauthorizedError") return account.loginRequired();
  // The library's InsufficientScopeError.
  if ("requiredScope" in error) {
    const { requiredScope: scope } = error;
    const metadata = "resourceMetadataUrl" in error ? error.resourceMetadataUrl : undefined;
    const named = typeof scope === "string" ? scope : "";
    return account.loginRequired(`wants further permission (${named.slice(0, 200) || "it does not say which"})`, {
      ...(named !== "" && { scope: named }),
      ...(metadata instanceof URL && { resourceMetadataUrl: metadata.href }),
    });
  }
  const status: unknown = "status" in error ? error.status : undefined;
  return status === 401 ? account.loginRequired("refuses the login") : undefined;
}
