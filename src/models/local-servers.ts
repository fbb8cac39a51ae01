/**
 * Model servers on this machine that run without being configured.
 *
 * Invariant: one counts only if it answers with a list of models within the time; whatever else listens on
 * its port is left alone after one connection.
 */
import { connect } from "node:net";
import { getJson, type HttpClient } from "./http.ts";

export interface LocalServer {
  /** First part of its models' ids. */
  name: string;
  baseUrl: string;
}

export interface FoundServer extends LocalServer {
  models: string[];
}

/** Milliseconds for each server, all asked at once. */
const PROBE_TIME = 300;

export function localServers(environment: NodeJS.ProcessEnv): LocalServer[] {
  return [
    { name: "ollama", baseUrl: ollamaUrl(environment.OLLAMA_HOST) },
    { name: "lm-studio", baseUrl: "http://127.0.0.1:1234/v1" },
    { name: "llama.cpp", baseUrl: "http://127.0.0.1:8080/v1" },
    { name: "vllm", baseUrl: "http://127.0.0.1:8000/v1" },
  ];
}

/** `OLLAMA_HOST` is what the server binds to: a host, a port, both, or a URL. */
function ollamaUrl(host: string | undefined): string {
  const given = host?.trim() ?? "";
  const text = /^https?:\/\//.test(given) ? given : `http://${given.startsWith(":") ? `127.0.0.1${given}` : given}`;
  const url = given === "" ? null : URL.parse(text);
  if (!url) return "http://127.0.0.1:11434/v1";
  const everywhere = url.hostname === "0.0.0.0" || url.hostname === "[::]";
  const port = url.port || (text === given ? (url.protocol === "https:" ? "443" : "80") : "11434");
  return `${url.protocol}//${everywhere ? "127.0.0.1" : url.hostname}:${port}/v1`;
}

/** The servers that answer, in the given order. Never rejects. */
export async function findLocalServers(
  http: HttpClient,
  servers: readonly LocalServer[],
  time = PROBE_TIME,
): Promise<FoundServer[]> {
  const found = await Promise.all(servers.map((server) => probe(http, server, time)));
  return found.filter((server) => server !== null);
}

async function probe(http: HttpClient, server: LocalServer, time: number): Promise<FoundServer | null> {
  const begun = Date.now();
  // A bare connection first: the HTTP client is loaded only if something listens.
  if (!(await listens(new URL(server.baseUrl), time))) return null;
  try {
    const left = Math.max(50, time - (Date.now() - begun));
    const models = await listModels(http, server.baseUrl, undefined, left);
    return models.length === 0 ? null : { ...server, models };
  } catch {
    return null;
  }
}

function listens(url: URL, time: number): Promise<boolean> {
  return new Promise((resolve) => {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const socket = connect({ host, port: Number(url.port || (url.protocol === "https:" ? 443 : 80)) });
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(time, () => settle(false));
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}

/** Names of an endpoint's models; those that cannot chat come last. Rejects if it does not list models. */
export async function listModels(
  http: HttpClient,
  baseUrl: string,
  apiKey: string | undefined,
  time: number,
): Promise<string[]> {
  const headers = apiKey === undefined ? [] : ["authorization", `Bearer ${apiKey}`];
  const answer = (await getJson(http, `${baseUrl}/models`, headers, time)) as { data?: unknown } | null;
  if (!Array.isArray(answer?.data)) throw new Error(`${baseUrl} does not list models`);
  const names = (answer.data as ({ id?: unknown } | null)[]).flatMap((model) =>
    typeof model?.id === "string" && model.id !== "" ? [model.id] : [],
  );
  const chats = (name: string) => !/embed|rerank|whisper|tts|clip|moderation/i.test(name);
  return [...names.filter(chats), ...names.filter((name) => !chats(name))];
}
