/**
 * Servers under the mixed load, and somebody who does something to them: the frame of several parts.
 *
 * Invariant: when the torment is over the servers are left in peace, every client comes to its end, the servers end in
 * order, and only then is judged.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Upstream } from "../src/testing/upstream.ts";
import { Client } from "./client.ts";
import { startEndpoint } from "./endpoint.ts";
import { History } from "./history.ts";
import { Load } from "./load.ts";
import { judge } from "./oracle.ts";
import { Chance, type Setting } from "./part.ts";
import { eventually, makePlace, type Place, Server } from "./server.ts";

export interface Storm {
  servers: readonly Server[];
  place: Place;
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
  const { environment, config } = options;
  const place = makePlace({
    build,
    endpoint: endpoint.url,
    ...(environment && { environment }),
    ...(config && { config }),
  });
  const chance = new Chance(seed);
  const history = new History(join(place.folder, "history.jsonl"));
  const servers = await Promise.all(Array.from({ length: options.servers ?? 1 }, () => Server.on({ build, place })));
  const client = new Client(() => servers, new Chance(seed + 1));
  const load = new Load({ client, history, chance: new Chance(seed + 2), name: `s${seed}` });
  const storm: Storm = { servers, place, chance, history, endpoint, load };
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
    return { faults: await judge(place, history), history, retries: client.retries };
  } finally {
    for (const server of servers) server.signal("SIGKILL");
    await endpoint.close();
    if (history.faults.length === 0) place.remove();
    else setting.tell(`the history is in ${place.folder}`);
  }
}

/**
 * Milliseconds until every response that a dead process ran is taken up by a living one, or has ended; undefined: not
 * in ten seconds.
 */
export async function untilTakenUp({ database }: Place, pid: number): Promise<number | undefined> {
  const began = performance.now();
  const file = new DatabaseSync(database, { readOnly: true, timeout: 1_000 });
  try {
    const left = file.prepare(
      `SELECT count(*) AS count FROM responses WHERE ended_at IS NULL AND caller_response_id IS NULL
       AND process LIKE ?`,
    );
    const none = () => Number(left.get(`%/${pid}/%`)?.count) === 0;
    return (await eventually(none, 10_000, 10)) ? performance.now() - began : undefined;
  } finally {
    file.close();
  }
}
