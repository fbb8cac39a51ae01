/**
 * Figures of the stores: `node test/store/measure.ts`. Durable steps a second, with many runs and with one; and how long
 * an event takes from its commit to a reader in another process. Real disks: what is measured is this machine.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { openPostgresStore } from "../../src/store/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Entry } from "../../src/types/item.ts";
import type { Store } from "../../src/types/store.ts";
import { freshSchema, hasPostgres, startPostgres } from "../support-postgres.ts";
import { batchOf, begin, messageEntry } from "./support.ts";

const SECONDS = 3;
const print = (line: string) => void process.stdout.write(`${line}\n`);

/** A step of one run, durable before the next begins: an event, with or without an item. */
async function steps(store: Store, runs: number, withItem: boolean): Promise<number> {
  const until = performance.now() + SECONDS * 1_000;
  const run = async () => {
    const { node } = await begin(store);
    const { item } = messageEntry("output", "a step's result ".repeat(8));
    let count = 0;
    while (performance.now() < until) {
      const event: RunEvent = { type: "response.in_progress", sequence_number: count + 1 };
      const entries: Entry[] = withItem ? [{ side: "output", position: count, turn: 1, item, meta: {} }] : [];
      await store.append(batchOf(node.id, { events: [event], entries }), true);
      count++;
    }
    return count;
  };
  const counts = await Promise.all(Array.from({ length: runs }, run));
  return Math.round(counts.reduce((sum, count) => sum + count, 0) / SECONDS);
}

async function compare(name: string, store: Store): Promise<void> {
  await steps(store, 8, true);
  for (const withItem of [false, true]) {
    const [one, many] = [await steps(store, 1, withItem), await steps(store, 64, withItem)];
    const what = withItem ? "an item and an event" : "an event";
    print(
      `${name}: durable steps a second (${what}): ${one} with one run, ${many} with 64 (${(many / one).toFixed(1)}x)`,
    );
  }
}

const clock = () => performance.timeOrigin + performance.now();

const deltaOf = (sequence_number: number): RunEvent => ({
  type: "response.output_text.delta",
  sequence_number,
  output_index: 0,
  content_index: 0,
  item_id: "msg_x",
  delta: "word ",
});

/** The other process: says when each event was committed. */
async function speak(url: string, schema: string): Promise<void> {
  const store = await openPostgresStore(url, { schema });
  const { node } = await begin(store);
  const { item } = messageEntry("output", "");
  const added: RunEvent = { type: "response.output_item.added", sequence_number: 1, output_index: 0, item };
  await store.append(batchOf(node.id, { events: [added] }), true);
  print(node.id);
  await sleep(1_500);
  for (let number = 2; number < 302; number++) {
    await store.append(batchOf(node.id, { events: [deltaOf(number)] }), false);
    print(`${number} ${clock()}`);
    await sleep(15 + Math.random() * 20);
  }
  await store.close();
}

async function follow(url: string): Promise<void> {
  const schema = freshSchema();
  const store = await openPostgresStore(url, { schema });
  const args = [import.meta.filename, "speak", url, schema];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const id: string = (await lines.next()).value ?? "";
  const committed = new Map<number, number>();
  const listen = (async () => {
    for await (const line of lines) {
      const [number, at] = line.split(" ").map(Number);
      committed.set(number ?? 0, at ?? 0);
    }
  })();
  const seen = new Map<number, number>();
  for (let last = -1; last < 301; ) {
    const events = await store.events(id, last, 100);
    for (const { sequence_number } of events) seen.set(sequence_number, clock());
    last = events.at(-1)?.sequence_number ?? last;
    if (events.length === 0) await store.changed(id, 1_000);
  }
  await listen;
  const took = [...committed].map(([number, at]) => Math.max(0, (seen.get(number) ?? 0) - at)).sort((a, b) => a - b);
  const at = (part: number) => (took[Math.floor(took.length * part)] ?? 0).toFixed(1);
  print(
    `Postgres: event at another process after its commit: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms`,
  );
  await store.close();
}

if (process.argv[2] === "speak") await speak(process.argv[3] ?? "", process.argv[4] ?? "");
else {
  const folder = mkdtempSync(join(tmpdir(), "rotunda-measure-"));
  const sqlite = await openSqliteStore(join(folder, "rotunda.db"));
  await compare("SQLite", sqlite);
  await sqlite.close();
  rmSync(folder, { recursive: true });
  if (hasPostgres) {
    const server = await startPostgres({ fsync: true });
    const store = await openPostgresStore(server.url);
    await compare("Postgres", store);
    await store.close();
    await follow(server.url);
    await server.stop();
  } else print("Postgres: skipped, there is none on this machine");
}
