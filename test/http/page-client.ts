/** The page's part of a browser: it keeps a cookie, sends the headers that a browser sends, and holds the other half. */
import type { Served } from "./served.ts";

export interface PageClient {
  cookie: string;
  csrf: string;
  /** The answer to its signing in. */
  session: { name: string; local: boolean; scopes: string[]; csrf: string; expires_at: number; body_limit: number };
  fetch(path: string, init?: RequestInit & { json?: unknown }): Promise<Response>;
}

type Target = Pick<Served, "url" | "token">;

/** A code that is good once. */
export async function codeOf({ url, token }: Target): Promise<string> {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(`${url}/rotunda/sign-in-link`, { method: "POST", headers });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  const { url: link } = (await answer.json()) as { url: string };
  return new URL(link).hash.replace("#sign-in=", "");
}

export function signIn(
  { url }: Pick<Served, "url">,
  body: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${url}/rotunda/sign-in`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", origin: url, "sec-fetch-site": "same-origin", ...headers },
  });
}

/** Signs in by a one-time link, or with a token. */
export async function openPage(served: Target, token?: string): Promise<PageClient> {
  const answer = await signIn(served, token === undefined ? { code: await codeOf(served) } : { token });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  const session = (await answer.json()) as PageClient["session"];
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  return {
    cookie,
    csrf: session.csrf,
    session,
    fetch(path, { json, headers, ...init } = {}) {
      return fetch(`${served.url}${path}`, {
        ...init,
        ...(json !== undefined && { body: JSON.stringify(json), method: init.method ?? "POST" }),
        headers: {
          cookie,
          "sec-fetch-site": "same-origin",
          "x-rotunda-csrf": session.csrf,
          ...(json !== undefined && { "content-type": "application/json" }),
          ...(headers as Record<string, string>),
        },
      });
    },
  };
}
