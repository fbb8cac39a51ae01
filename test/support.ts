/** What many tests need: folders that go away, an engine on a real database with a scripted model. */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach } from "vitest";
import { createEngine } from "../src/engine/engine.ts";
import type { EngineParts } from "../src/engine/parts.ts";
import { builtinProfiles } from "../src/profiles/builtin.ts";
import { openSqliteStore, type SqliteOptions } from "../src/store/sqlite.ts";
import type { Engine } from "../src/types/engine.ts";
import type { Notice, RunEvent } from "../src/types/event.ts";
import type { Model, ModelEvent, ModelRequest } from "../src/types/model.ts";
import type { Profile } from "../src/types/profile.ts";
import type { Store } from "../src/types/store.ts";
import type { Tool } from "../src/types/tool.ts";

const cleanups: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Runs when the test has ended, last one first. */
export function later(cleanup: () => Promise<void> | void): void {
  cleanups.push(cleanup);
}

export function temporaryFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-test-")));
  later(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** `ROTUNDA_TEST_STORE=postgres`: what needs just any store gets one on Postgres (see support-postgres.ts). */
export const onPostgres = process.env.ROTUNDA_TEST_STORE === "postgres";

if (onPostgres) afterAll(async () => (await import("./support-postgres.ts")).stopSharedPostgres());

/** By folder: stores of one folder are stores on one database. */
const schemas = new Map<string, string>();

export async function temporaryStore(options: SqliteOptions = {}, folder = temporaryFolder()): Promise<Store> {
  const store = onPostgres
    ? await storeOnPostgres(options, folder)
    : await openSqliteStore(join(folder, "rotunda.db"), options);
  later(() => store.close().catch(() => undefined));
  return store;
}

async function storeOnPostgres({ probe, lease, portion }: SqliteOptions, folder: string): Promise<Store> {
  const [{ openPostgresStore }, { freshSchema, query, sharedPostgres }] = await Promise.all([
    import("../src/store/postgres.ts"),
    import("./support-postgres.ts"),
  ]);
  const { url } = await sharedPostgres();
  let schema = schemas.get(folder);
  if (schema === undefined) {
    schema = freshSchema();
    schemas.set(folder, schema);
    later(async () => void (await query(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)));
  }
  const given = {
    ...(probe && { probe }),
    ...(lease !== undefined && { lease }),
    ...(portion !== undefined && { portion }),
  };
  return openPostgresStore(url, { ...given, schema });
}

/** One answer of a model: its events, or a function that makes them. */
export type Answer =
  | ModelEvent[]
  | ((request: ModelRequest, signal: AbortSignal) => AsyncIterable<ModelEvent> | ModelEvent[]);

export interface TestModel extends Model {
  requests: ModelRequest[];
}

/** Answers in turn; the last one again and again. */
export function modelOf(answers: Answer[], id = "scripted"): TestModel {
  const requests: ModelRequest[] = [];
  return {
    id,
    key: `test|${id}`,
    requests,
    async *stream(request, signal) {
      const answer = answers[Math.min(requests.length, answers.length - 1)] ?? [];
      requests.push(request);
      yield* typeof answer === "function" ? answer(request, signal) : answer;
    },
  };
}

export const say = (text: string): ModelEvent[] => [
  { type: "text", delta: text },
  { type: "finish", reason: "stop" },
];

export function callOf(...calls: [name: string, input: object | string][]): ModelEvent[] {
  return [
    ...calls.flatMap(([name, input], index): ModelEvent[] => [
      { type: "call", index, callId: `call_${index}_${Math.random().toString(36).slice(2)}`, name },
      { type: "call_arguments", index, delta: typeof input === "string" ? input : JSON.stringify(input) },
    ]),
    { type: "finish", reason: "tool_calls" },
  ];
}

export function toolOf(name: string, run: Tool["run"], rest: Partial<Tool> = {}): Tool {
  return {
    name,
    server: "rotunda",
    serverName: name,
    description: `test tool ${name}`,
    input: { type: "object" },
    access: "read",
    repeatable: rest.access === undefined || rest.access === "read",
    run,
    ...rest,
  };
}

export interface Fixture {
  engine: Engine;
  store: Store;
  notices: Notice[];
  parts: EngineParts;
}

export interface FixtureOptions extends Partial<EngineParts> {
  model?: Model;
  toolList?: Tool[];
  profile?: Partial<Profile>;
  /** Runs on this database instead of a new one. */
  folder?: string;
}

export async function engineWith(options: FixtureOptions): Promise<Fixture> {
  const store = options.store ?? (await temporaryStore({}, options.folder));
  const notices: Notice[] = [];
  const tools = options.toolList ?? [];
  const parts: EngineParts = {
    store,
    models: { get: async () => options.model ?? modelOf([say("hello")]) },
    tools: {
      list: async () => tools,
      find: async (name) => tools.find((tool) => tool.name === name),
      close: async () => undefined,
    },
    profiles: {
      list: () => builtinProfiles,
      get: async (name = "general") => {
        const builtin = builtinProfiles.find((profile) => profile.name === name);
        if (!builtin) throw new Error(`no profile ${name}`);
        const { tools: _tools, ...rest } = builtin;
        return { ...rest, ...options.profile, name };
      },
    },
    permissions: { allow: [], ask: [], deny: [], mode: "auto" },
    hooks: {},
    runHook: async () => ({ exitCode: 0, stdout: "", stderr: "" }),
    sandbox: { level: async () => "bwrap", network: "auto" },
    projectInstructions: async () => "",
    toolOutputLimit: 8_000,
    redact: (text) => text,
    notify: (notice) => void notices.push(notice),
    now: Date.now,
    ...options,
  };
  const engine = createEngine(parts);
  later(() => engine.stop());
  return { engine, store, notices, parts };
}

export async function collect(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const all: RunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}
