/** The whole server on real ports: a scripted endpoint, the app as main.ts builds it, the door; and a client's first steps. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AppOptions, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { createHttpDoor, type HttpDoor, type HttpDoorOptions } from "../../src/doors/http/server.ts";
import { runQueued } from "../../src/runners/run-queued.ts";
import { startUpstream, type Upstream, type UpstreamOptions, type UpstreamScript } from "../../src/testing/upstream.ts";
import type { App } from "../../src/types/app.ts";
import type { Token } from "../../src/types/token.ts";
import { ensureLocalToken } from "../../src/util/local-token.ts";
import { newToken } from "../../src/util/token.ts";
import { later, temporaryFolder } from "../support.ts";
import { sharedPostgres } from "../support-postgres.ts";
import { startKilledWorkers } from "./killed-workers.ts";

export interface WireItem {
  id: string;
  type: string;
  call_id: string;
  name: string;
  status: string;
  content: { type: string; text: string }[];
}

/** A Response object, as far as tests look into it. */
export interface WireResponse {
  id: string;
  status: string;
  output: WireItem[];
  previous_response_id: string | null;
  error: { code: string; message: string } | null;
}

export interface Served {
  url: string;
  /** The local token. */
  token: string;
  app: App;
  door: HttpDoor;
  upstream: Upstream;
  folder: string;
  workspace: string;
  /** A request with the local token, or with another. */
  fetch(path: string, init?: RequestInit & { token?: string | null; json?: unknown }): Promise<Response>;
  /** Creates a response and gives its object. Fails where the answer is no 200. */
  respond(json: object, token?: string): Promise<WireResponse>;
  /** A new named token's text. */
  newToken(wish?: Partial<Token>): Promise<string>;
  stop(): Promise<void>;
}

export interface ServedOptions {
  /** Further lines of rotunda.yaml (JSON is YAML). */
  config?: object;
  door?: Partial<HttpDoorOptions>;
  app?: Partial<AppOptions>;
  upstream?: UpstreamOptions;
  /** On what another one left behind. */
  folder?: string;
  endpoint?: Upstream;
  /** It is about what a server knows by itself: no second one answers beside it. */
  oneDoor?: true;
}

/**
 * `ROTUNDA_TEST_CLUSTER=1`: the door's app runs nothing itself; another one, on the same Postgres, works on the queue.
 * `ROTUNDA_TEST_CLUSTER=kill`: two doors answer in turn, and three processes work on the queue, of which one is killed
 * every second.
 */
const cluster = process.env.ROTUNDA_TEST_CLUSTER;
export const inCluster = cluster === "1" || cluster === "kill";
/** Two doors answer in turn: what each counts by itself is half of it. */
export const twoDoors = cluster === "kill";
const DURABLE = /^\/v1\/(?:responses|conversations|chat\/completions)/;
const schemas = new Map<string, string>();

/** One schema for each folder: a second server finds what the first one left. */
async function databaseOf(folder: string): Promise<string> {
  const { url } = await sharedPostgres();
  const schema = schemas.get(folder) ?? `served_${process.pid}_${schemas.size}`;
  schemas.set(folder, schema);
  return `${url}&schema=${schema}`;
}

async function startWorker(app: App): Promise<void> {
  const run = (id: string, last: boolean) =>
    runQueued({ app, appFor: async () => app, tell: () => undefined }, id, last);
  await app.queue?.work({ concurrency: 64, run });
}

export async function serve(script: UpstreamScript, options: ServedOptions = {}): Promise<Served> {
  const folder = options.folder ?? temporaryFolder();
  const upstream = options.endpoint ?? (await startUpstream(script, options.upstream));
  if (!options.endpoint) later(() => upstream.close());
  const workspace = join(folder, "workspace");
  const state = join(folder, "state");
  mkdirSync(workspace, { recursive: true });
  const file = join(folder, "rotunda.yaml");
  const model = (id: string) => ({ id, baseUrl: upstream.url, model: id, apiKey: "sk-test-0123456789" });
  const config = { models: [model("test-model"), model("other-model")], ...options.config };
  writeFileSync(file, JSON.stringify(config));
  const environment: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: folder,
    ROTUNDA_HOME: state,
    ROTUNDA_CONFIG: file,
  };
  if (inCluster) environment.ROTUNDA_DATABASE = await databaseOf(folder);
  const load = () => loadConfig({ workspace, environment });
  const makeApp = async () =>
    createApp({ config: await load(), workspace, environment, load, queued: inCluster, ...options.app });
  const app = await makeApp();
  // What a test hands to the app itself no other process can have.
  const killed = twoDoors && !options.app ? await startKilledWorkers(workspace, environment) : undefined;
  const worker = inCluster && !killed ? await makeApp() : undefined;
  if (worker) await startWorker(worker);
  const doorOptions = { port: 0, accessLog: false, log: () => undefined, ...options.door };
  const door = createHttpDoor(app, doorOptions);
  const url = await door.listen();
  const second = killed && !options.door && !options.oneDoor ? await makeApp() : undefined;
  const secondDoor = second && createHttpDoor(second, doorOptions);
  const urls = [url, ...(secondDoor ? [await secondDoor.listen()] : [])];
  let asked = 0;
  const token = ensureLocalToken(state);
  let stopped = false;
  const stop = async () => {
    if (stopped) return;
    stopped = true;
    await Promise.all([door.close({ seconds: 0 }), secondDoor?.close({ seconds: 0 })]);
    await killed?.stop();
    await Promise.all([app.close(), second?.close(), worker?.close()]);
  };
  later(stop);
  const made: Served = {
    url,
    token,
    app,
    door,
    upstream,
    folder,
    workspace,
    stop,
    fetch(path, init = {}) {
      const { token: given = token, json, headers, ...rest } = init;
      // What is in the database any door answers; settings, logins and limits are a server's own.
      const at = DURABLE.test(path) ? asked++ % urls.length : 0;
      return fetch(`${urls[at]}${path}`, {
        ...rest,
        ...(json !== undefined && { body: JSON.stringify(json), method: init.method ?? "POST" }),
        headers: {
          ...(json !== undefined && { "content-type": "application/json" }),
          ...(given !== null && { authorization: `Bearer ${given}` }),
          ...(headers as Record<string, string>),
        },
      });
    },
    async respond(json, given) {
      const answer = await made.fetch("/v1/responses", { json, ...(given !== undefined && { token: given }) });
      if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
      return (await answer.json()) as WireResponse;
    },
    async newToken(wish = {}) {
      const created = newToken({ name: `token-${Math.random().toString(36).slice(2)}`, ...wish }, Date.now());
      await app.store.saveToken(created.token);
      return created.text;
    },
  };
  return made;
}

/** The events of a stream: `event` and parsed `data`; `[DONE]` as its text. */
export async function eventsOf(response: Response): Promise<{ event: string | undefined; data: unknown }[]> {
  const text = await response.text();
  return text
    .split("\n\n")
    .filter((block) => block !== "" && !block.startsWith(":"))
    .map((block) => {
      const lines = block.split("\n");
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data") ?? "";
      return { event: field("event"), data: data === "[DONE]" ? data : (JSON.parse(data) as unknown) };
    });
}
