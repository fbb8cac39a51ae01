/**
 * Part `interleavings`: starting, going on, cancelling, steering, deciding, watching, deleting and dying, in orders that
 * a scheduler chooses, on the engine with a real database.
 *
 * Invariant: every log is without a gap and has one end; an effect happens at most once; what a watcher saw is what the
 * log says; what was acknowledged is there, unless it was deleted.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { isEnd, type RunEvent } from "../src/types/event.ts";
import { none, type Outcome, type Part, type Setting } from "./part.ts";
import { Process, type World } from "./scheduled.ts";

const IN_CI = 200;
/** Milliseconds after which one run stands still. */
const STANDS_STILL = 60_000;
const ops = [
  "start",
  "effect",
  "effect",
  "effect",
  "asked",
  "goOn",
  "cancel",
  "steer",
  "decide",
  "watch",
  "watch",
  "delete",
  "kill",
  "kill",
] as const;

interface Command {
  op: (typeof ops)[number];
  at: number;
}

const commandsArbitrary = fc.array(fc.record({ op: fc.constantFrom(...ops), at: fc.nat(40) }), {
  minLength: 2,
  maxLength: 10,
});

interface Watched {
  id: string;
  events: RunEvent[];
}

/** One run of the property. */
class Trial {
  readonly #world: World;
  #process: Process;
  readonly #ids: string[] = [];
  readonly #deleted = new Set<string>();
  readonly #watched: Watched[] = [];
  /** Each ends with its response, which may need a decision of the settling first. */
  readonly #watching: Promise<void>[] = [];
  #lines = 0;

  constructor(world: World, process: Process) {
    this.#world = world;
    this.#process = process;
  }

  async run(commands: readonly Command[]): Promise<void> {
    await Promise.all(
      commands.map(async ({ op, at }) => {
        // Not all at the very beginning: the later, the more has gone on before.
        for (let step = 0; step <= at; step++) await this.#world.scheduler.schedule(Promise.resolve(), op);
        // A refusal (it has ended, it is another's) is an answer like any other.
        await this.#act(op, at).catch(() => undefined);
      }),
    );
    await this.#settle();
    await Promise.all(this.#watching);
  }

  #input(op: Command["op"]): string {
    const line = `line-${++this.#lines}`;
    if (op === "effect") return `append ${line} append ${line}b`;
    return op === "asked" ? `append_asked ${line}` : "hello";
  }

  async #start(op: Command["op"], previousResponseId?: string): Promise<void> {
    const request = { input: this.#input(op), workspace: "/", door: "test", queue: true };
    const { engine } = this.#process;
    const { id } = await engine.start({ ...request, ...(previousResponseId && { previousResponseId }) });
    this.#ids.push(id);
  }

  async #act(op: Command["op"], at: number): Promise<void> {
    const id = this.#ids[at % Math.max(1, this.#ids.length)];
    const { engine, store } = this.#process;
    if (op === "start" || op === "effect" || op === "asked") return this.#start(op);
    if (op === "kill") return this.#kill();
    if (id === undefined) return;
    if (op === "goOn") return this.#start(at % 2 === 0 ? "start" : "effect", id);
    if (op === "cancel") return engine.cancel(id, "somebody wished so");
    if (op === "watch") {
      this.#watching.push(this.#watch(id, at % 3 === 0 ? 1 : -1).catch(() => undefined));
      return;
    }
    if (op === "steer") {
      const content = [{ type: "input_text" as const, text: "quicker" }];
      return engine.steer(id, [{ type: "message", id: "", role: "user", status: "completed", content }]);
    }
    if (op === "delete") {
      await engine.delete(id);
      this.#deleted.add(id);
      return;
    }
    const [asked] = await store.approvals({ status: "pending" });
    if (!asked) return;
    await engine.decide(asked.id, { decision: at % 2 === 0 ? "allow" : "deny", by: "test" });
    await engine.goOn(asked.id);
  }

  async #watch(id: string, after: number): Promise<void> {
    const watched: Watched = { id, events: [] };
    this.#watched.push(watched);
    for await (const event of this.#process.engine.watch(id, after)) watched.events.push(event);
  }

  async #kill(): Promise<void> {
    const before = this.#process;
    const next = await Process.begin(this.#world);
    this.#process = next;
    await before.kill();
    await this.#takeUp();
  }

  async #takeUp(): Promise<void> {
    const { engine, store } = this.#process;
    const open = await store.list({ status: ["queued", "in_progress", "waiting"] });
    for (const { id, caller } of open.reverse()) if (caller === null) await engine.resume(id).catch(() => undefined);
  }

  /** Everything comes to its end. */
  async #settle(): Promise<void> {
    const until = performance.now() + 20_000;
    for (;;) {
      const { engine, store } = this.#process;
      const open = await store.list({ status: ["queued", "in_progress", "waiting"] });
      if (open.length === 0) return;
      if (performance.now() > until)
        throw new Error(`not ended: ${JSON.stringify(open.map(({ id, status }) => [id, status]))}`);
      for (const { id } of await store.approvals({ status: "pending" })) {
        await engine.decide(id, { decision: "allow", by: "test" }).catch(() => undefined);
        await engine.goOn(id).catch(() => undefined);
      }
      await this.#takeUp();
      await sleep(10);
    }
  }

  /** Throws where an invariant does not hold. */
  async judge(): Promise<void> {
    const { store } = this.#process;
    for (const line of new Set(this.#world.effects)) {
      const count = this.#world.effects.filter((one) => one === line).length;
      if (count > 1) throw new Error(`${line} was written ${count} times`);
    }
    for (const id of this.#ids) {
      const stored = await store.get(id);
      if (this.#deleted.has(id)) {
        if (stored) throw new Error(`${id} was deleted and is there`);
        continue;
      }
      if (!stored) throw new Error(`${id} was acknowledged and is not there`);
      const log = await store.events(id, -1, 100_000);
      if (log.some((event, index) => event.sequence_number !== index)) throw new Error(`${id} has a gap`);
      if (log.filter(isEnd).length !== 1) throw new Error(`${id} has ${log.filter(isEnd).length} ends`);
      for (const { events } of this.#watched.filter((watched) => watched.id === id)) {
        for (const event of events) {
          const there = JSON.stringify(log[event.sequence_number]);
          if (JSON.stringify(event) !== there)
            throw new Error(`${id}: a watcher saw ${JSON.stringify(event)}, the log says ${there}`);
        }
        const gap = events.findIndex(
          (event, index) => event.sequence_number !== (events[0]?.sequence_number ?? 0) + index,
        );
        if (gap !== -1) throw new Error(`${id}: a watcher saw a gap at ${gap}`);
      }
    }
  }

  async end(): Promise<void> {
    await this.#process.end();
  }
}

async function trial(scheduler: fc.Scheduler, commands: readonly Command[], folder: string): Promise<void> {
  const world: World = { scheduler, path: join(folder, "rotunda.db"), effects: [], held: true };
  const one = new Trial(world, await Process.begin(world));
  const still = new AbortController();
  // Without a timer, a run that waits for ever would end the program and say nothing of itself.
  const tooLong = sleep(STANDS_STILL, undefined, { signal: still.signal }).then(() => {
    throw new Error(`a run stands still; scheduled: ${scheduler.count()}`);
  });
  tooLong.catch(() => undefined);
  try {
    await scheduler.waitFor(Promise.race([one.run(commands), tooLong]));
    world.held = false;
    await one.judge();
  } finally {
    still.abort();
    world.held = false;
    const ending = one.end();
    await scheduler.waitFor(Promise.race([ending, sleep(5_000)]));
    // What a dead process still held in its hand.
    await scheduler.waitIdle();
  }
}

async function run({ seed, cycles, build, tell }: Setting): Promise<Outcome> {
  const runs = cycles ?? IN_CI;
  let done = 0;
  const counts = new Map<string, number>();
  const property = fc.asyncProperty(fc.scheduler(), commandsArbitrary, async (scheduler, commands) => {
    const folder = mkdtempSync(join(build.folder, "interleaved-"));
    try {
      await trial(scheduler, commands, folder);
      for (const { op } of commands) counts.set(op, (counts.get(op) ?? 0) + 1);
      if (++done % 20 === 0) tell(`${done} of ${runs} runs`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
  const details = await fc.check(property, { seed, numRuns: runs, endOnFailure: cycles === undefined });
  const faults: string[] = [];
  if (details.failed) {
    const { counterexample, errorInstance, counterexamplePath } = details;
    const [, commands] = counterexample ?? [];
    const text = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
    faults.push(
      `path ${counterexamplePath}: ${JSON.stringify(commands)}: ${text}\n${String(counterexample?.[0]).slice(0, 4_000)}`,
    );
  }
  const used = [...counts].map(([op, count]) => `${count} ${op}`).join(", ");
  return {
    faults,
    figures: [
      { what: "orders that the scheduler has chosen", value: done },
      { what: "what was done in them", value: used },
      none("orders in which an invariant did not hold", faults.length),
    ],
  };
}

export const interleavings: Part = {
  name: "interleavings",
  about: "the engine's steps in orders that a scheduler chooses",
  rows: ["P1", "P7"],
  run,
};
