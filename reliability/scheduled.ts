/**
 * An engine on a real database whose every answer from the store, step of the model and step of a tool is held until a
 * scheduler lets it go; and its death.
 *
 * Invariant: answers to the writes of one response come in the order of the writes, as the store promises; everything
 * else may come in any order.
 */
import { DatabaseSync } from "node:sqlite";
import type { Scheduler } from "fast-check";
import { createEngine } from "../src/engine/engine.ts";
import type { EngineParts } from "../src/engine/parts.ts";
import { builtinProfiles } from "../src/profiles/builtin.ts";
import { openSqliteStore } from "../src/store/sqlite.ts";
import type { Engine } from "../src/types/engine.ts";
import { RotundaError } from "../src/types/error.ts";
import type { Model, ModelEvent } from "../src/types/model.ts";
import type { Store } from "../src/types/store.ts";
import type { Tool } from "../src/types/tool.ts";

/** Answered at once, or not by a promise of the database. */
const FREE = new Set(["hurry", "version", "close", "changed", "renew", "renewEvery"]);

export interface World {
  scheduler: Scheduler;
  path: string;
  /** Lines that the tool has written, in the order of its runs. */
  effects: string[];
  /** False: everything is let go at once. */
  held: boolean;
}

function hold<T>(world: World, promise: Promise<T>, label: string): Promise<T> {
  return world.held ? world.scheduler.schedule(promise, label) : promise;
}

export class Process {
  readonly engine: Engine;
  readonly store: Store;
  readonly #world: World;
  #isDead = false;

  private constructor(world: World, store: Store) {
    this.#world = world;
    this.store = store;
    this.engine = createEngine(partsOf(world, this.#behind(store), () => this.#isDead));
  }

  static async begin(world: World): Promise<Process> {
    return new Process(world, await openSqliteStore(world.path));
  }

  /** The store as the engine sees it. */
  #behind(store: Store): Store {
    const last = new Map<string, Promise<unknown>>();
    const call = (name: string, given: unknown[]): unknown => {
      const method = Reflect.get(store, name) as (...given: unknown[]) => unknown;
      if (this.#isDead) {
        if (name === "version") return 0;
        if (name === "hurry") return undefined;
        return Promise.reject(new RotundaError("storage_failed", "the process is dead"));
      }
      const answer = method.apply(store, given);
      if (FREE.has(name) || !(answer instanceof Promise)) return answer;
      if (name !== "append") return hold(this.#world, answer, name);
      const { responseId } = given[0] as { responseId: string };
      const before = last.get(responseId) ?? Promise.resolve();
      const inOrder = before.catch(() => undefined).then(() => hold(this.#world, answer, "append"));
      // A refusal is the engine's to look at; here it only keeps the order.
      answer.catch(() => undefined);
      last.set(responseId, inOrder);
      return inOrder;
    };
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? (...given: unknown[]) => call(String(name), given) : value;
      },
    });
  }

  /** As kill -9: it writes nothing more, and everybody can see that it is gone. */
  async kill(): Promise<void> {
    this.#isDead = true;
    await this.store.close();
    const file = new DatabaseSync(this.#world.path, { timeout: 5_000 });
    // All processes of this test are one process; a dead one is one whose start time is not that of its number.
    file.exec(
      "UPDATE responses SET process = replace(process, '/' || substr(process, -8), '0/dead') WHERE process IS NOT NULL",
    );
    file.close();
    this.engine.stop().catch(() => undefined);
  }

  async end(): Promise<void> {
    await this.engine.stop();
    await this.store.close();
  }
}

function partsOf(world: World, store: Store, isDead: () => boolean): EngineParts {
  const tools = [toolOf(world, "append", isDead), toolOf(world, "append_asked", isDead)];
  return {
    store,
    models: { get: async () => model(world) },
    tools: {
      list: async () => tools,
      find: async (name) => tools.find((tool) => tool.name === name),
      close: async () => undefined,
    },
    profiles: {
      list: () => builtinProfiles,
      get: async (name = "general") => {
        const profile = builtinProfiles.find((one) => one.name === name);
        if (!profile) throw new RotundaError("profile_not_found", name);
        const { tools: _tools, ...rest } = profile;
        return { ...rest, name };
      },
    },
    permissions: { allow: [], ask: ["append_asked"], deny: [], mode: "auto" },
    hooks: {},
    runHook: async () => ({ exitCode: 0, stdout: "", stderr: "" }),
    sandbox: { level: async () => "bwrap", network: "auto" },
    projectInstructions: async () => "",
    toolOutputLimit: 8_000,
    redact: (text) => text,
    notify: () => undefined,
    now: Date.now,
  };
}

function toolOf(world: World, name: string, isDead: () => boolean): Tool {
  return {
    name,
    server: "rotunda",
    serverName: name,
    description: "Appends a line",
    input: { type: "object" },
    access: "run",
    repeatable: false,
    async run({ line }) {
      await hold(world, Promise.resolve(), "tool begins");
      if (isDead()) throw new Error("the process is dead");
      world.effects.push(String(line));
      await hold(world, Promise.resolve(), "tool ends");
      return { text: "appended" };
    },
  };
}

/** Asks for the calls that the question names, one after the other, then says two words. */
function model(world: World): Model {
  return {
    id: "m",
    key: "test|m",
    async *stream({ history }) {
      const own = history.at(-1)?.entries ?? [];
      const question = JSON.stringify(
        own.find(({ side, item }) => side === "input" && item.type === "message")?.item ?? "",
      );
      const wanted = [...question.matchAll(/(append\w*) ([\w-]+)/g)];
      const called = own.filter(({ item }) => item.type === "mcp_call").length;
      const next = wanted[called];
      const events: ModelEvent[] = next
        ? [
            { type: "call", index: 0, callId: `call_${called}`, name: next[1] ?? "" },
            { type: "call_arguments", index: 0, delta: JSON.stringify({ line: next[2] }) },
            { type: "finish", reason: "tool_calls" },
          ]
        : [
            { type: "text", delta: "one " },
            { type: "text", delta: "two" },
            { type: "finish", reason: "stop" },
          ];
      for (const event of events) {
        await hold(world, Promise.resolve(), `model: ${event.type}`);
        yield event;
      }
    },
  };
}
