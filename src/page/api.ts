/**
 * Requests to the server that the page came from.
 *
 * Invariant: every request carries the session's proof against forgery; a failure is a `RequestError` with the
 * server's own words, and status 0 where no answer came at all.
 */
import { Cell } from "./cell.ts";
import { shown } from "./visible.tsx";

export interface Session {
  name: string;
  scopes: string[];
  csrf: string;
  /** Bytes of one request's body. */
  body_limit?: number;
  version?: string;
  /** What is in force, where it may be seen. */
  server?: { workspace: string; database: string };
}

/** Undefined: not asked yet. Null: nobody is signed in. */
export const session = new Cell<Session | null | undefined>(undefined);

/** False while the server cannot be reached. */
export const online = new Cell(true);

/** Counts what the server has answered, whatever it said. */
export const answers = new Cell(0);

/** Once the server has answered anything; that it does not is said until then. */
export function whenItAnswers(what: () => void): void {
  const unwatch = answers.subscribe(() => {
    unwatch();
    what();
  });
}

export class RequestError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface RequestOptions {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function ask(path: string, options: RequestOptions = {}): Promise<Response> {
  const { method = options.body === undefined ? "GET" : "POST", body, headers = {}, signal } = options;
  const csrf = session.value?.csrf ?? "";
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers: {
        ...(csrf !== "" && { "x-rotunda-csrf": csrf }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    online.set(false);
    throw new RequestError(0, "unreachable", "The server does not answer.");
  }
  online.set(true);
  answers.set(answers.value + 1);
  if (answer.ok) return answer;
  const failure = await readFailure(answer);
  const refused = answer.status === 401 || (answer.status === 403 && failure.code === "origin_not_allowed");
  if (refused && path !== SIGN_IN) session.set(null);
  throw failure;
}

export const SIGN_IN = "/rotunda/sign-in";

async function readFailure(answer: Response): Promise<RequestError> {
  const text = await answer.text().catch(() => "");
  try {
    const { error, message } = JSON.parse(text) as {
      error?: { message?: string; code?: string } | string;
      message?: string;
    };
    if (typeof error === "string") return new RequestError(answer.status, "", error);
    return new RequestError(answer.status, error?.code ?? "", error?.message ?? message ?? `Error ${answer.status}`);
  } catch {
    return new RequestError(answer.status, "", `The server answered ${answer.status}.`);
  }
}

/** The answer's JSON; the caller says its shape. */
export async function askJson<T>(path: string, options?: RequestOptions): Promise<T> {
  return (await (await ask(path, options)).json()) as T;
}

/** What to tell a person of anything that was thrown: it may quote what somebody else has named. */
export function words(error: unknown): string {
  return shown(error instanceof Error ? error.message : String(error));
}

export function may(scope: string): boolean {
  return session.value?.scopes.includes(scope) ?? false;
}
