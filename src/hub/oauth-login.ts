/**
 * OAuth login: how an account comes to its tokens, by a person's consent or as a client of its own, and how it gives
 * them back.
 *
 * Invariant: the PKCE verifier and what was found out about the authorization server stay in the attempt that they were
 * made for; nothing that is stored changes before the tokens are there, so that a login that fails costs nothing; an
 * issuer that is not the one of the metadata ends the attempt (RFC 8414, RFC 9207).
 */
import type {
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import type { OAuthAccount } from "./oauth-account.ts";
import { clientAuthentication, scopes } from "./oauth-parts.ts";
import type { Challenge, StoredLogin } from "./oauth-store.ts";

/** One way through the flow; its answers are the library's `OAuthClientProvider`. */
export class LoginAttempt implements OAuthClientProvider {
  readonly #account: OAuthAccount;
  readonly #redirectUrl: string | undefined;
  readonly #state: string;
  readonly clientMetadataUrl: string;
  #verifier: string | undefined;
  #discovery: OAuthDiscoveryState | undefined;
  #client: StoredOAuthClientInformation | undefined;
  #resource: string | undefined;
  /** Where the person must go. */
  authorizationUrl: URL | undefined;

  constructor(account: OAuthAccount, redirectUrl: string | undefined, state: string) {
    this.#account = account;
    this.#redirectUrl = redirectUrl;
    this.#state = state;
    // Empty: there is none.
    this.clientMetadataUrl = account.config.clientMetadataUrl ?? "";
  }

  get redirectUrl(): string | undefined {
    return this.#redirectUrl;
  }

  get clientMetadata(): OAuthClientMetadata {
    const { scopes: wanted } = this.#account.config;
    const methods = this.#discovery?.authorizationServerMetadata?.token_endpoint_auth_methods_supported ?? [];
    return {
      client_name: "Rotunda",
      redirect_uris: this.#redirectUrl === undefined ? [] : [this.#redirectUrl],
      grant_types: this.#redirectUrl === undefined ? ["client_credentials"] : ["authorization_code", "refresh_token"],
      response_types: this.#redirectUrl === undefined ? [] : ["code"],
      ...(wanted && { scope: wanted.join(" ") }),
      // A program on somebody's machine keeps no secret; where one is demanded, the server chooses how it is sent.
      ...(methods.includes("none") && { token_endpoint_auth_method: "none" }),
    };
  }

  state(): string {
    return this.#state;
  }

  clientInformation(ctx?: { issuer: string }): StoredOAuthClientInformation | undefined {
    const issuer = ctx?.issuer;
    if (issuer !== undefined) this.#checkIssuer(issuer);
    const { clientId } = this.#account.config;
    if (clientId !== undefined)
      return this.#account.withSecret({ client_id: clientId, ...(issuer !== undefined && { issuer }) });
    this.#client ??= this.#registered(ctx?.issuer);
    return this.#client;
  }

  /** A server that begins to name another authorization server might be after the configured secret. */
  #checkIssuer(issuer: string): void {
    const { issuer: expected, clientSecret, privateKey } = this.#account.config;
    const { login, client = login?.client } = this.#account.store.read();
    const known = (clientSecret ?? privateKey) === undefined ? undefined : client?.issuer;
    const wanted = expected ?? known;
    if (wanted === undefined || wanted === issuer) return;
    const remedy = expected === undefined ? `; if that is right: rotunda hub logout ${this.#account.server}` : "";
    throw new Error(`the server names the authorization server ${issuer} in place of ${wanted}${remedy}`);
  }

  /** A client of an earlier login, if it was made by this authorization server and for this address of ours. */
  #registered(issuer: string | undefined): StoredOAuthClientInformation | undefined {
    const { login, client = login?.client } = this.#account.store.read();
    if (!client || client.issuer !== issuer || this.#redirectUrl === undefined) return undefined;
    const redirects = "redirect_uris" in client && Array.isArray(client.redirect_uris) ? client.redirect_uris : [];
    const { client_secret_expires_at: ends } = client;
    if (ends !== undefined && ends !== 0 && ends * 1000 < this.#account.now()) return undefined;
    return redirects.includes(this.#redirectUrl) ? client : undefined;
  }

  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.#client = client;
  }

  tokens(): undefined {
    return undefined;
  }

  async saveTokens(tokens: StoredOAuthTokens, ctx?: { issuer: string }): Promise<void> {
    const client = this.clientInformation(ctx);
    const issuer = ctx?.issuer ?? tokens.issuer;
    if (!client || issuer === undefined || !this.#discovery) throw new Error("the login has no authorization server");
    this.#account.keepSecret(tokens);
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = this.#discovery;
    const login: StoredLogin = {
      issuer,
      authorizationServerUrl,
      ...(metadata && { metadata }),
      client: this.#account.withoutSecret({ ...client, issuer }),
      tokens: { ...tokens, issuer },
      ...(this.#resource !== undefined && { resource: this.#resource }),
      obtainedAt: this.#account.now(),
    };
    await this.#account.store.change(() => ({ login }));
  }

  redirectToAuthorization(url: URL): void {
    this.authorizationUrl = url;
  }

  /** The code is sent once, and to the authorization server that the person was sent to. */
  async exchange(code: string, iss: string | undefined, fetchFn: OAuthAccount["fetch"]): Promise<void> {
    const { exchangeAuthorization } = await import("@modelcontextprotocol/client");
    const discovery = this.#discovery;
    const issuer = discovery?.authorizationServerMetadata?.issuer ?? discovery?.authorizationServerUrl;
    const client = issuer === undefined ? undefined : this.clientInformation({ issuer });
    if (!discovery || issuer === undefined || !client || this.#redirectUrl === undefined)
      throw new Error("the login was not begun here");
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery;
    const tokens = await exchangeAuthorization(authorizationServerUrl, {
      ...(metadata && { metadata }),
      clientInformation: client,
      authorizationCode: code,
      ...(iss !== undefined && { iss }),
      codeVerifier: this.codeVerifier(),
      redirectUri: this.#redirectUrl,
      ...(this.#resource !== undefined && { resource: this.#resource }),
      ...(await clientAuthentication(this.#account.config)),
      fetchFn,
    });
    await this.saveTokens(tokens, { issuer });
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    if (this.#verifier === undefined) throw new Error("the login was not begun here");
    return this.#verifier;
  }

  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }

  saveResourceUrl(resource: string): void {
    this.#resource = resource;
  }

  /** The library asks for it where there is no redirect. */
  prepareTokenRequest(scope?: string): URLSearchParams | undefined {
    if (this.#redirectUrl !== undefined) return undefined;
    const request = new URLSearchParams({ grant_type: "client_credentials" });
    if (scope !== undefined && scope !== "") request.set("scope", scope);
    return request;
  }
}

/** Finds out, registers where need be, and resolves with the address that a person must open. */
export async function beginLogin(account: OAuthAccount, redirectUrl: string, state: string): Promise<LoginAttempt> {
  const { auth, discoverOAuthServerInfo } = await import("@modelcontextprotocol/client");
  const attempt = Object.assign(
    new LoginAttempt(account, redirectUrl, state),
    await clientAuthentication(account.config),
  );
  const wish = request(account, account.store.read().challenge);
  const found = await discoverOAuthServerInfo(account.url, wish);
  const resourceMetadataUrl = wish.resourceMetadataUrl?.href;
  attempt.saveDiscoveryState({ ...found, ...(resourceMetadataUrl !== undefined && { resourceMetadataUrl }) });
  await auth(attempt, { ...wish, forceReauthorization: true });
  const { authorizationUrl } = attempt;
  if (!authorizationUrl) throw new Error("the authorization server has no page to log in at");
  if (authorizationUrl.protocol !== "https:" && authorizationUrl.protocol !== "http:")
    throw new Error(`the authorization server's address is no web address (${authorizationUrl.protocol})`);
  return attempt;
}

/** Exchanges the code. `iss` is what came with it. */
export async function finishLogin(
  account: OAuthAccount,
  attempt: LoginAttempt,
  code: string,
  iss: string | undefined,
): Promise<void> {
  await attempt.exchange(code, iss, account.fetch);
}

/** Without a person: the client's own credentials are the login. */
export async function logInAsClient(
  account: OAuthAccount,
  challenge: Challenge,
  refused: string | undefined,
): Promise<void> {
  const { login } = account.store.read();
  // Another request, or process, has done it already.
  if (login && login.tokens.access_token !== refused) return;
  if (account.config.clientId === undefined) throw account.loginRequired("needs oauth.clientId in its configuration");
  const { discoverOAuthServerInfo, fetchToken, selectResourceURL } = await import("@modelcontextprotocol/client");
  const attempt = Object.assign(new LoginAttempt(account, undefined, ""), await clientAuthentication(account.config));
  const wish = request(account, challenge);
  const found = await discoverOAuthServerInfo(account.url, wish);
  attempt.saveDiscoveryState(found);
  const { authorizationServerUrl, authorizationServerMetadata: metadata, resourceMetadata } = found;
  const selected = await selectResourceURL(account.url, attempt, resourceMetadata);
  // As it is written there: some servers compare it letter by letter.
  const resource = selected && resourceMetadata ? resourceMetadata.resource : undefined;
  if (resource !== undefined) attempt.saveResourceUrl(resource);
  const scope = wish.scope ?? resourceMetadata?.scopes_supported?.join(" ");
  const tokens = await fetchToken(attempt, authorizationServerUrl, {
    ...(metadata && { metadata }),
    ...(resource !== undefined && { resource }),
    ...(scope !== undefined && { scope }),
    fetchFn: account.fetch,
  });
  await attempt.saveTokens(tokens, { issuer: metadata?.issuer ?? authorizationServerUrl });
}

/** Which scopes: what the operator wrote, what was granted before, what the server asked for. */
function request(account: OAuthAccount, challenge: Challenge | undefined) {
  const granted = challenge?.scope === undefined ? undefined : account.store.read().login?.tokens.scope;
  return {
    serverUrl: account.url,
    fetchFn: account.fetch,
    ...(challenge?.resourceMetadataUrl !== undefined && {
      resourceMetadataUrl: new URL(challenge.resourceMetadataUrl),
    }),
    ...scopes(account.config.scopes?.join(" "), granted, challenge?.scope),
  };
}

/** Tells the authorization server that the tokens are given up (RFC 7009). False where it cannot be told. */
export async function revoke(account: OAuthAccount, login: StoredLogin): Promise<boolean> {
  const { metadata, tokens } = login;
  const client = account.withSecret(login.client);
  const endpoint = metadata && "revocation_endpoint" in metadata ? metadata.revocation_endpoint : undefined;
  if (typeof endpoint !== "string") return false;
  const { selectClientAuthMethod } = await import("@modelcontextprotocol/client");
  const supported = metadata?.token_endpoint_auth_methods_supported ?? [];
  const method = selectClientAuthMethod(client, supported);
  const given: [string, string | undefined][] = [
    ["refresh_token", tokens.refresh_token],
    ["access_token", tokens.access_token],
  ];
  let done = true;
  for (const [hint, token] of given) {
    if (token === undefined) continue;
    const body = new URLSearchParams({ token, token_type_hint: hint });
    const headers: Record<string, string> = {};
    const { client_id: id, client_secret: secret = "" } = client;
    if (method === "client_secret_basic")
      headers.authorization = `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString("base64")}`;
    else body.set("client_id", id);
    if (method === "client_secret_post") body.set("client_secret", secret);
    const answer = await account.fetch(endpoint, { method: "POST", headers, body }).catch(() => undefined);
    done &&= answer?.ok === true;
  }
  return done;
}
