/**
 * A process with a store of its own. Arguments: one JSON object, see `ChildWork`. Prints one line of JSON.
 *
 * With `killAt` it kills itself before or after that commit (counted from 1, without those of opening).
 */
import { openPostgresStore } from "../../src/store/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { auditOf, batchOf, begin, end } from "./support.ts";
import { Speaker } from "./tail.ts";

export interface ChildWork {
  /** SQLite's. */
  file?: string;
  /** Postgres's. */
  url?: string;
  schema?: string;
  what: "audits" | "create" | "erase" | "batch" | "speak";
  /** Its name in what it writes; the idempotency key; or the response to erase. */
  name: string;
  count?: number;
  killAt?: number;
  moment?: "before" | "after";
  portion?: number;
}

const work = JSON.parse(process.argv[2] ?? "{}") as ChildWork;
let commits = 0;
const options = {
  ...(work.portion !== undefined && { portion: work.portion }),
  probe: (moment: "before" | "after") => {
    if (moment === "before") commits++;
    if (commits === work.killAt && moment === work.moment) process.kill(process.pid, "SIGKILL");
  },
};
const store =
  work.url === undefined
    ? await openSqliteStore(work.file ?? "", { ...options, ...(work.what === "speak" && { crowd: 2, tailAge: 30 }) })
    : await openPostgresStore(work.url, { ...options, schema: work.schema ?? "" });
const say = (value: object) => void process.stdout.write(`${JSON.stringify(value)}\n`);

if (work.what === "audits") {
  for (let number = 0; number < (work.count ?? 0); number++) await store.audit(auditOf(`${work.name} ${number}`));
  say({ done: true });
} else if (work.what === "create") {
  const idempotency = { key: work.name, digest: "d", expiresAt: Date.now() + 60_000 };
  const made = await Promise.all(Array.from({ length: work.count ?? 1 }, () => begin(store, { idempotency })));
  say({ answers: made.map(({ node, known }) => known?.responseId ?? node.id) });
} else if (work.what === "batch") {
  const { node } = await begin(store);
  await store.append(batchOf(node.id, { audits: [auditOf("one"), auditOf("two")] }), true);
  await end(store, node.id, "done", { audits: [auditOf("three")] });
  say({ id: node.id });
} else if (work.what === "speak") {
  // Four streams, told as they are committed; one ends early, and what is old leaves the tail on the way.
  const all = await Promise.all([1, 2, 3, 4].map(() => Speaker.start(store)));
  for (let word = 0; word < 12; word++) {
    const speaking = all.slice(word < 6 ? 0 : 1);
    await Promise.all(
      speaking.map(async (speaker) => {
        await speaker.say(store, [`w${word} `]);
        say({ id: speaker.id, told: speaker.events.length - 1 });
      }),
    );
    if (word === 5) await all[0]?.end(store);
    if (word === 8) await new Promise((resolve) => setTimeout(resolve, 1_100));
  }
  for (const speaker of all.slice(1)) await speaker.end(store);
} else {
  say({ deleted: await store.delete(work.name) });
}
await store.close();
