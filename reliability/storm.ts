/**
 * Servers under the mixed load, and somebody who does something to them: the frame of several parts.
 *
 * Invariant: when the torment is over the servers are left in peace, every client comes to its end, the servers end in
 * order, and only then is judged.
 */
import { join } from "node:path";
import type { Upstream } from "../src/testing/upstream.ts";
import { Client } from "./client.ts";
import { type PartDatabase, partDatabase } from "./database.ts";
import { startEndpoint } from "./endpoint.ts";
import { History } from "./history.ts";
import { Load } from "./load.ts";
import { judge } from "./oracle.ts";
import { Chance, type Setting } from "./part.ts";
import { eventually, makePlace, type Place, Server } from "./server.ts";

export interface Storm {
  servers: readonly Server[];
  place: Place;
  database: PartDatabase;
  chance: Chance;
  history: History;
  endpoint: Upstream;
  load: Load;
}

export interface StormOptions {
  /** Default 1. */
  servers?: number;
  /** Default 8. */
  clients?: number;
  environment?: NodeJS.ProcessEnv;
  config?: object;
  /** What is done to them. */
  torment(storm: Storm): Promise<void>;
  /** When everything has ended, with the place still there. */
  after?(storm: Storm): Promise<void>;
}

export interface Weathered {
  faults: string[];
  history: History;
  retries: number;
}

export async function weather(setting: Setting, options: StormOptions): Promise<Weathered> {
  const { build, seed } = setting;
  const endpoint = await startEndpoint();
  const database = await partDatabase(setting.database);
  const { environment, config } = options;
  const given = { ...(database.address !== undefined && { database: database.address }), ...config };
  const place = makePlace({
    build,
    endpoint: endpoint.url,
    ...(environment && { environment }),
    config: given,
  });
  const chance = new Chance(seed);
  const history = new History(join(place.folder, "history.jsonl"));
  const servers = await Promise.all(Array.from({ length: options.servers ?? 1 }, () => Server.on({ build, place })));
  const client = new Client(() => servers, new Chance(seed + 1));
  const load = new Load({ client, history, chance: new Chance(seed + 2), name: `s${seed}` });
  const storm: Storm = { servers, place, database, chance, history, endpoint, load };
  try {
    for (const server of servers) await server.start();
    const running = load.run(options.clients ?? 8);
    try {
      await options.torment(storm);
    } finally {
      load.stop();
      await running;
    }
    for (const server of servers) {
      const { code, signal, said } = await server.stop("SIGTERM");
      if (code !== 0) history.fault(`at the end the server left with ${code ?? signal}: ${said.slice(-500)}`);
    }
    await options.after?.(storm);
    return { faults: await judge(place, history, database), history, retries: client.retries };
  } finally {
    for (const server of servers) server.signal("SIGKILL");
    await endpoint.close();
    await database.drop();
    if (history.faults.length === 0) place.remove();
    else setting.tell(`the history is in ${place.folder}`);
  }
}

/**
 * Milliseconds until every response that a dead process ran is taken up by a living one, or has ended; undefined: not
 * in half a minute.
 */
export async function untilTakenUp({ place, database }: Storm, pid: number): Promise<number | undefined> {
  const began = performance.now();
  const store = await database.open(place);
  try {
    const none = async () => {
      for (const { id, caller } of await store.list({ status: ["queued", "in_progress", "waiting"], limit: 10_000 })) {
        if (caller === null && (await store.leaseOf(id))?.process.includes(`/${pid}/`)) return false;
      }
      return true;
    };
    return (await eventually(none, 30_000, 10)) ? performance.now() - began : undefined;
  } finally {
    await store.close();
  }
}
