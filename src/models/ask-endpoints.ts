/**
 * Asking endpoints whether they are there: GET /models, with the key and the headers that a call would have.
 *
 * Invariant: each endpoint is asked once, however many of its models are configured, and nothing is generated.
 */
import type { ModelConfig } from "../types/config.ts";
import type { ModelInfo } from "../types/model.ts";
import { counted } from "../util/text.ts";
import { headersOf } from "./chat-completions.ts";
import { getJson, type HttpClient } from "./http.ts";

/** Milliseconds. */
const PATIENCE = 5_000;

type Outcome = { names: string[] } | { status: number } | { why: string };

/** Puts into each `answer` what came of it. Never rejects. */
export async function askEndpoints(
  http: HttpClient,
  models: readonly { info: ModelInfo; config: ModelConfig }[],
): Promise<void> {
  const asked = new Map<string, Promise<Outcome>>();
  await Promise.all(
    models.map(async ({ info, config }) => {
      const { baseUrl, apiKey, headers, query } = config;
      const key = JSON.stringify([baseUrl, apiKey, headers, query]);
      const outcome = asked.get(key) ?? ask(http, config);
      asked.set(key, outcome);
      info.answer = inWords(await outcome, config);
    }),
  );
}

async function ask(http: HttpClient, config: ModelConfig): Promise<Outcome> {
  try {
    const url = new URL(config.baseUrl);
    url.pathname = `${url.pathname.replace(/\/+$/, "")}/models`;
    for (const [name, value] of Object.entries(config.query ?? {})) url.searchParams.set(name, value);
    const answer = (await getJson(http, url.href, headersOf(config), PATIENCE)) as { data?: unknown } | null;
    if (!Array.isArray(answer?.data)) return { names: [] };
    const all = answer.data as ({ id?: unknown } | null)[];
    return { names: all.flatMap((one) => (typeof one?.id === "string" ? [one.id] : [])) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const [, status] = /^answered (\d{3})$/.exec(why) ?? [];
    return status === undefined ? { why } : { status: Number(status) };
  }
}

function inWords(outcome: Outcome, { baseUrl, model, apiKey }: ModelConfig): NonNullable<ModelInfo["answer"]> {
  const place = placeOf(baseUrl);
  if ("why" in outcome) return { state: "fault", text: `${place} cannot be reached: ${outcome.why}` };
  if ("status" in outcome) {
    const { status } = outcome;
    if (status === 401 || status === 403) {
      const why = apiKey === undefined ? "asks for a key" : "refuses the key";
      return { state: "fault", text: `${place} ${why} (${status})` };
    }
    // Not every endpoint lists its models; one that fails at that may fail at everything.
    if (status === 404 || status === 405) return { state: "ok", text: `${place} answers (it lists no models)` };
    return { state: "warning", text: `${place} answers with ${status}` };
  }
  const { names } = outcome;
  if (names.length === 0) return { state: "ok", text: `${place} answers (it lists no models)` };
  const has = `${place} answers, and lists ${counted(names.length, "model")}`;
  // Google's begin with "models/".
  if (names.some((name) => name === model || name === `models/${model}`))
    return { state: "ok", text: `${has}, it among them` };
  return { state: "warning", text: `${has}; none is called ${model}` };
}

function placeOf(baseUrl: string): string {
  return URL.parse(baseUrl)?.host ?? "its address";
}
