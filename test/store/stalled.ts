/**
 * A worker that stalls, for tests. Arguments: one JSON object, see `StalledWork`. Prints one JSON line for each thing
 * that it has done.
 *
 * "between": it says that it is ready, and goes on when it is woken. "commit": it stops itself with a commit half done.
 */
import { once } from "node:events";
import { openPostgresStore } from "../../src/store/postgres.ts";
import { toRotundaError } from "../../src/types/error.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { batchOf, messageEntry, nodeOf } from "./support.ts";

export interface StalledWork {
  url: string;
  schema: string;
  lease: number;
  stall: "between" | "commit";
}

const work = JSON.parse(process.argv[2] ?? "{}") as StalledWork;
const say = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);
let stopAt = Number.POSITIVE_INFINITY;
let commits = 0;
const store = await openPostgresStore(work.url, {
  schema: work.schema,
  lease: work.lease,
  probe: (moment) => {
    if (moment === "before" && ++commits === stopAt) process.kill(process.pid, "SIGSTOP");
  },
});
const name = newProcessName();
const node = nodeOf();
await store.create({
  node,
  input: [],
  events: [{ type: "response.created", sequence_number: 0 }],
  process: name,
  conversation: null,
});
const beat = setInterval(() => void store.renew(name).catch(() => undefined), store.renewEvery);
const write = (text: string, position: number) =>
  store.append(batchOf(node.id, { entries: [messageEntry("output", text, position)] }), true);
await write("in time", 0);
if (work.stall === "commit") stopAt = commits + 1;
const woken = once(process, "SIGUSR2");
say({ id: node.id, process: name });
if (work.stall === "between") {
  // It is stopped from outside, and goes on with this when it wakes up.
  await woken;
}
try {
  await write("too late", 1);
  say({ written: true });
} catch (error) {
  say({ refused: toRotundaError(error).code });
}
clearInterval(beat);
await store.close();
