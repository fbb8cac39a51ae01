/**
 * Many machines: servers and workers on one Postgres; and what it brings that commits of many runs are shared.
 *
 * Invariant: everything is a process of its own, Postgres with fsync; a machine without Postgres measures none of it and
 * says so. Goals are bounds from above: four workers have three times the capacity of one where a turn costs each of them
 * at most 1.33 times as much.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openSqliteStore } from "../src/store/sqlite.ts";
import { begin, messageEntry } from "../test/store/support.ts";
import { type PostgresServer, postgresPrograms, startPostgres } from "../test/support-postgres.ts";
import { type Measurement, median, type Row, type Settings } from "./measurement.ts";
import { makePlace, modelConfig, type Place, ROTUNDA } from "./processes.ts";
import { cpuOf, type ServerProcess, startEndpoint } from "./servers.ts";

const CONFIG = `profile: bench
profiles:
  bench: {instructions: Answer., tools: []}
`;

class Machines {
  readonly #postgres: PostgresServer;
  readonly #place: Place;
  readonly #children: ChildProcess[] = [];
  readonly #schema: string;

  constructor(postgres: PostgresServer, place: Place, schema: string) {
    this.#postgres = postgres;
    this.#place = place;
    this.#schema = schema;
  }

  async start(args: string[], line: RegExp, apart = false): Promise<{ child: ChildProcess; url: string }> {
    const home = join(this.#place.folder, `machine${this.#children.length}${this.#schema}`);
    mkdirSync(home);
    const env = {
      ...this.#place.environment,
      HOME: home,
      ROTUNDA_HOME: join(home, "state"),
      ROTUNDA_CONFIG: join(this.#place.folder, "rotunda.yaml"),
      ROTUNDA_DATABASE: `${this.#postgres.url}&schema=${this.#schema}`,
    };
    const before = apart ? ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] : [];
    const [command = "", ...rest] = [...before, process.execPath, ROTUNDA, ...args];
    const child = spawn(command, rest, { cwd: this.#place.workspace, env, stdio: ["ignore", "pipe", "pipe"] });
    this.#children.push(child);
    let said = "";
    const url = await new Promise<string>((resolve, reject) => {
      child.stderr?.setEncoding("utf8").on("data", (text: string) => {
        said = `${said}${text}`.slice(-2_000);
      });
      child.once("close", (code) => reject(new Error(`rotunda ${args[0]} ended with ${code}: ${said}`)));
      let out = "";
      child.stdout?.setEncoding("utf8").on("data", (text: string) => {
        out += text;
        const found = line.exec(out)?.[1];
        if (found !== undefined) resolve(found);
      });
    });
    return { child, url };
  }

  server(concurrency = 0): Promise<{ child: ChildProcess; url: string }> {
    const args = ["serve", "--port", "0", "--quiet", "--auth", "none", "--concurrency", String(concurrency)];
    return this.start(args, /listening on (\S+)\n/);
  }

  worker(concurrency: number, apart = false): Promise<{ child: ChildProcess; url: string }> {
    return this.start(["worker", "--concurrency", String(concurrency)], /worker (runs)/, apart);
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await sleep(200);
  }
}

async function post(url: string, input: string): Promise<string> {
  const body = JSON.stringify({ model: "bench", input, background: true });
  const answer = await fetch(`${url}/v1/responses`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json" },
  });
  const { id, error } = (await answer.json()) as { id?: string; error?: { message: string } };
  if (id === undefined) throw new Error(error?.message ?? `status ${answer.status}`);
  return id;
}

/** Each event's type, and when it came. */
async function* read(url: string, id: string): AsyncGenerator<{ type: string; number: number; at: number }> {
  const answer = await fetch(`${url}/v1/responses/${id}?stream=true`);
  let text = "";
  for await (const piece of answer.body ?? []) {
    const at = performance.now();
    text += Buffer.from(piece).toString("utf8");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [, data = "{}"] = /^data: (\{.*)$/m.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      const event = JSON.parse(data) as { type?: string; sequence_number?: number };
      if (event.type) yield { type: event.type, number: event.sequence_number ?? -1, at };
    }
  }
}

async function toEnd(url: string, id: string): Promise<Map<number, number>> {
  const times = new Map<number, number>();
  for await (const { number, at } of read(url, id)) times.set(number, at);
  return times;
}

interface Capacity {
  turnsPerSecond: number;
  /** Microseconds of the workers for one turn. */
  cpu: number;
}

async function capacityOf(machines: Machines, workers: number, turns: number): Promise<Capacity> {
  const { url } = await machines.server();
  const pids: number[] = [];
  for (let count = 0; count < workers; count++) pids.push((await machines.worker(8)).child.pid ?? 0);
  // What is loaded with the first turns is not counted.
  const warm = await Promise.all(Array.from({ length: 16 * workers }, () => post(url, "wait=50")));
  await Promise.all(warm.map((id) => toEnd(url, id)));
  const cpu = () => pids.reduce((sum, pid) => sum + cpuOf(pid), 0);
  const [before, began] = [cpu(), performance.now()];
  const ids = await Promise.all(Array.from({ length: turns }, () => post(url, "wait=50")));
  await waitForAll(url, ids);
  const seconds = (performance.now() - began) / 1_000;
  return { turnsPerSecond: turns / seconds, cpu: (cpu() - before) / turns };
}

/** Asked now and then: the client shall cost little. */
async function waitForAll(url: string, ids: readonly string[]): Promise<void> {
  for (const id of [...ids].reverse()) {
    for (;;) {
      const { status } = (await (await fetch(`${url}/v1/responses/${id}`)).json()) as { status: string };
      if (status === "completed") break;
      if (status !== "queued" && status !== "in_progress") throw new Error(`${id} ended ${status}`);
      await sleep(50);
    }
  }
}

async function workersRow(postgres: PostgresServer, place: Place, quick: boolean): Promise<Row> {
  const turns = quick ? 100 : 400;
  const results: Capacity[] = [];
  for (const workers of [1, 4]) {
    const machines = new Machines(postgres, place, `capacity${workers}`);
    results.push(await capacityOf(machines, workers, turns * workers).finally(() => machines.close()));
  }
  const [one, four] = results;
  if (!one || !four) throw new Error("nothing was measured");
  const rate = (value: number) => value.toFixed(0);
  return {
    name: "four workers on Postgres against one, an endpoint that takes 50 ms: CPU of a turn",
    ours: four.cpu,
    bare: one.cpu,
    unit: "µs",
    value: four.cpu / one.cpu,
    valueUnit: "×",
    goal: 4 / 3,
    note: `capacity ${((4 * one.cpu) / four.cpu).toFixed(1)}×; on this machine, with server, database and client on its cores, ${rate(four.turnsPerSecond)} turns/s against ${rate(one.turnsPerSecond)}`,
  };
}

async function nodesRows(postgres: PostgresServer, place: Place, quick: boolean): Promise<Row[]> {
  const machines = new Machines(postgres, place, "nodes");
  try {
    const server = await machines.server();
    await machines.worker(16);
    const pickups: number[] = [];
    for (let round = 0; round < (quick ? 20 : 60); round++) {
      const id = await post(server.url, "wait=50");
      const acknowledged = performance.now();
      for await (const { type, at } of read(server.url, id)) {
        if (type === "response.in_progress") pickups.push(Math.max(0, at - acknowledged));
      }
    }
    await machines.close();
    const alone = new Machines(postgres, place, "events");
    const lags: number[] = [];
    try {
      // This one runs what it accepts itself, the other one reads along.
      const [runs, reads] = [await alone.server(16), await alone.server()];
      for (let round = 0; round < (quick ? 2 : 5); round++) {
        const id = await post(runs.url, "tokens");
        const [here, there] = await Promise.all([toEnd(runs.url, id), toEnd(reads.url, id)]);
        for (const [number, at] of there) {
          const first = here.get(number);
          if (first !== undefined && number > 5) lags.push(at - first);
        }
      }
    } finally {
      await alone.close();
    }
    return [
      timeRow("a queued run, from its acknowledgement until a worker has begun with it, p50", median(pickups), 15),
      timeRow("an event at another node, after the one that runs it has told it, p50", median(lags), 20),
    ];
  } finally {
    await machines.close();
  }
}

function timeRow(name: string, value: number, goal: number, note?: string): Row {
  return { name, ours: value, bare: null, unit: "ms", value, valueUnit: "ms", goal, ...(note && { note }) };
}

async function takeoverRow(postgres: PostgresServer, place: Place, quick: boolean): Promise<Row> {
  const times: number[] = [];
  for (let round = 0; round < (quick ? 1 : 3); round++) {
    const machines = new Machines(postgres, place, `takeover${round}`);
    try {
      const { url } = await machines.server();
      const { child } = await machines.worker(4, true);
      const id = await post(url, "tokens");
      let [last, killed] = [0, 0];
      const reading = (async () => {
        for await (const { at } of read(url, id)) {
          if (killed > 0 && at > killed + 500) return at;
          last = at;
        }
        return last;
      })();
      await machines.worker(4, true);
      while (last === 0) await sleep(20);
      await sleep(1_000);
      child.kill("SIGKILL");
      killed = performance.now();
      times.push((await reading) - killed);
    } finally {
      await machines.close();
    }
  }
  const note = "from kill -9 of a worker in a process namespace of its own to the next event";
  return timeRow("a run whose machine is gone goes on elsewhere", median(times), 12_000, note);
}

/** 64 runs write a step each at the same moment, and one run writes a step after the other. */
async function commitRow(place: Place, quick: boolean): Promise<Row> {
  const store = await openSqliteStore(join(place.folder, "steps.db"));
  const runs = await Promise.all(Array.from({ length: 64 }, async () => (await begin(store)).node.id));
  const rounds = quick ? 50 : 300;
  const step = (responseId: string, position: number) => {
    const entry = messageEntry("output", "A step of an ordinary length, as a tool's result is.", position);
    const nothing = { outputs: [], approvals: [], audits: [], node: null, events: [] };
    return store.append({ responseId, fence: 1, sealed: false, entries: [entry], ...nothing }, true);
  };
  const together = performance.now();
  for (let round = 0; round < rounds; round++) await Promise.all(runs.map((id) => step(id, round)));
  const ours = (performance.now() - together) / (rounds * runs.length);
  const [first = ""] = runs;
  const single = performance.now();
  for (let round = 0; round < rounds; round++) await step(first, rounds + round);
  const bare = (performance.now() - single) / rounds;
  await store.close();
  return {
    name: "a durable step on SQLite with 64 runs, against one with a commit of its own",
    ours,
    bare,
    unit: "ms",
    value: ours / bare,
    valueUnit: "×",
    goal: 1 / 8,
    note: `${(1_000 / ours).toFixed(0)} steps/s against ${(1_000 / bare).toFixed(0)}: ${(bare / ours).toFixed(1)}×`,
  };
}

async function withPostgres(
  { quick }: Settings,
  measure: (postgres: PostgresServer, place: Place, quick: boolean) => Promise<Row[]>,
): Promise<Row[]> {
  if (postgresPrograms() === undefined) throw new Error("there is no Postgres on this machine");
  const postgres = await startPostgres({ fsync: true });
  const endpoint: ServerProcess = await startEndpoint();
  const place = makePlace(modelConfig(`${endpoint.url}/v1`, CONFIG));
  try {
    return await measure(postgres, place, quick);
  } finally {
    await endpoint.close();
    await postgres.stop();
    place.remove();
  }
}

export const commits: Measurement = {
  name: "commits",
  async run({ quick }) {
    const place = makePlace();
    try {
      return [await commitRow(place, quick)];
    } finally {
      place.remove();
    }
  },
};

export const cluster: Measurement = {
  name: "cluster",
  run: (settings) =>
    withPostgres(settings, async (postgres, place, quick) => [
      await workersRow(postgres, place, quick),
      ...(await nodesRows(postgres, place, quick)),
      await takeoverRow(postgres, place, quick),
    ]),
};
