/**
 * Part `soak`: many turns with tools, clients that go away, and an MCP server that dies again and again.
 *
 * Invariant: what is left on the heap after a collection does not grow with the number of turns; when the last turn has
 * ended, no handle is left that was not there before, and when the server has ended, no process and no file.
 */
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeBuild } from "./build.ts";
import { Client } from "./client.ts";
import { question, startEndpoint, type Wish } from "./endpoint.ts";
import { Chance, none, type Outcome, type Part, type Setting } from "./part.ts";
import { eventually, linesOf, makePlace, type Place, Server } from "./server.ts";

const IN_CI = 3_000;
const AT_ONCE = 32;
/** Turns before anything is measured: caches fill, code is compiled. */
const WARM_UP = 0.5;
/** Measurements after that. */
const POINTS = 12;
/** Megabytes for ten thousand turns. */
const SLOPE = 1;
/** Megabytes in all that are no growth: code that is still being compiled. With few turns it is more than the slope. */
const NOISE = 1;
/** Turns that fill the cache of histories by themselves. With fewer, it is built smaller: it would look like a leak. */
const FILLS = 50_000;
const SMALL_CACHE = {
  file: "src/engine/history.ts",
  from: "const CACHE_LIMIT = 20_000;",
  to: "const CACHE_LIMIT = 200;",
};
/** Turns after which the MCP server is killed. */
const KILL_EVERY = 250;

interface Measured {
  heapUsed: number;
  rss: number;
  resources: string[];
}

interface Soak {
  server: Server;
  client: Client;
  place: Place;
  chance: Chance;
  faults: string[];
  counts: { turns: number; calls: number; cuts: number; restarts: number };
}

/** One turn: most plain, some with a call, some whose client goes away. */
async function turn({ client, chance, counts, faults }: Soak): Promise<void> {
  const kind = chance.next();
  const withCall: Wish = { calls: [["counter__append", { line: `turn-${counts.turns}` }]], words: 5 };
  const wish: Wish = kind < 0.3 ? withCall : { words: 5 };
  counts.turns++;
  if (kind > 0.9) {
    const body = { model: "test-model", input: question({ words: 30, delay: 2 }), stream: true };
    let heard = 0;
    await client.read("/v1/responses", { body }, () => ++heard < 4);
    counts.cuts++;
    return;
  }
  if (kind < 0.3) counts.calls++;
  const { status, json } = await client.ask("/v1/responses", { body: { model: "test-model", input: question(wish) } });
  if (status !== 200) faults.push(`a turn: ${status} ${JSON.stringify(json).slice(0, 300)}`);
}

async function turns(soak: Soak, count: number, clear: () => void): Promise<void> {
  let left = count;
  const one = async () => {
    while (left-- > 0) {
      if (left % KILL_EVERY === 0 && killCounter(soak.place)) soak.counts.restarts++;
      if (left % 100 === 0) clear();
      await turn(soak);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

/** Processes of a place: whoever has it as its home. */
function processesOf(place: Place, word: string): number[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const environment = readFileSync(`/proc/${name}/environ`, "latin1");
      const command = readFileSync(`/proc/${name}/cmdline`, "latin1");
      return environment.includes(place.folder) && command.includes(word) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

function killCounter(place: Place): boolean {
  const running = processesOf(place, "counter-server").filter(
    (pid) => !readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("bwrap"),
  );
  for (const pid of running) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
  return running.length > 0;
}

async function measure(server: Server, meter: string): Promise<Measured> {
  const before = linesOf(meter).length;
  server.signal("SIGUSR2");
  if (!(await eventually(() => linesOf(meter).length > before))) throw new Error("the server does not measure itself");
  return JSON.parse(linesOf(meter).at(-1) ?? "{}") as Measured;
}

/** Of a straight line through the points, by least squares: y for each unit of x. */
function slopeOf(points: readonly { x: number; y: number }[]): number {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(points.map((point) => point.x)), mean(points.map((point) => point.y))];
  const above = points.reduce((sum, point) => sum + (point.x - x) * (point.y - y), 0);
  const below = points.reduce((sum, point) => sum + (point.x - x) ** 2, 0);
  return below === 0 ? 0 : above / below;
}

function countsOf(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** Connections that idle on both sides for the next request: one for each client, and one to the model for each. */
const IDLE = 2 * AT_ONCE + 4;

/** Handles that there are more of than before. */
function leftOver(before: readonly string[], after: readonly string[]): string[] {
  const then = countsOf(before);
  then.set("TCPSocketWrap", Math.max(IDLE, then.get("TCPSocketWrap") ?? 0));
  return [...countsOf(after)]
    .filter(([name, count]) => count > (then.get(name) ?? 0))
    .map(([name, count]) => `${name}: ${then.get(name) ?? 0}, then ${count}`);
}

/** What may lie in a state directory when nothing runs. */
const KEPT = /^(rotunda\.db|token|hub|valid-config\.json|settings\.json)$/;

async function afterwards({ server, place, faults }: Soak): Promise<void> {
  const { code, said } = await server.stop("SIGTERM");
  if (code !== 0) faults.push(`the server left with ${code}: ${said}`);
  if (!(await eventually(() => processesOf(place, "").length === 0, 5_000))) {
    const left = processesOf(place, "").map((pid) =>
      readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " "),
    );
    faults.push(`processes are left over: ${left.join("; ")}`);
  }
  const files = readdirSync(place.state).filter((name) => !KEPT.test(name));
  if (files.length > 0) faults.push(`files are left over in the state directory: ${files.join(", ")}`);
  const drafts = readdirSync(join(place.folder, "tmp"), { recursive: true, encoding: "utf8" });
  if (drafts.some((name) => !name.startsWith("node-compile-cache")))
    faults.push(`temporary files are left over: ${drafts.join(", ")}`);
}

async function run(setting: Setting): Promise<Outcome> {
  const all = setting.cycles ?? IN_CI;
  if (all >= FILLS) return soak(setting, all);
  const build = await makeBuild([SMALL_CACHE]);
  try {
    return await soak({ ...setting, build }, all);
  } finally {
    build.remove();
  }
}

async function soak(setting: Setting, all: number): Promise<Outcome> {
  const endpoint = await startEndpoint();
  const meter = join(setting.build.folder, `meter-${process.pid}`);
  const place = makePlace({
    build: setting.build,
    endpoint: endpoint.url,
    environment: {
      RELIABILITY_METER: meter,
      NODE_OPTIONS: `--import ${setting.build.program("meter")}`,
    },
  });
  const temporary = join(place.folder, "tmp");
  place.environment.TMPDIR = temporary;
  const server = await Server.on({ build: setting.build, place, node: ["--expose-gc"] });
  const client = new Client(() => [server], new Chance(setting.seed));
  const counts = { turns: 0, calls: 0, cuts: 0, restarts: 0 };
  const scene: Soak = { server, client, place, chance: new Chance(setting.seed), faults: [], counts };
  const clear = () => {
    endpoint.requests.length = 0;
  };
  const points: { x: number; y: number }[] = [];
  mkdirSync(temporary);
  try {
    await server.start();
    await turns(scene, Math.round(all * WARM_UP), clear);
    const first = await measure(server, meter);
    let last = first;
    for (let point = 0; point < POINTS; point++) {
      await turns(scene, Math.round((all * (1 - WARM_UP)) / POINTS), clear);
      last = await measure(server, meter);
      points.push({ x: counts.turns / 10_000, y: last.heapUsed / 1_000_000 });
      if (point % 4 === 3) setting.tell(`${counts.turns} of ${all} turns, heap ${(last.heapUsed / 1e6).toFixed(1)} MB`);
    }
    // What waits for the next request is no leak: idle connections end by themselves.
    await eventually(async () => {
      last = await measure(server, meter);
      return leftOver(first.resources, last.resources).length === 0;
    });
    for (const text of leftOver(first.resources, last.resources)) scene.faults.push(`handles are left over: ${text}`);
    await afterwards(scene);
  } finally {
    server.signal("SIGKILL");
    await endpoint.close();
    if (scene.faults.length === 0) place.remove();
    else setting.tell(`the place is ${place.folder}`);
  }
  const slope = slopeOf(points);
  const grown = slope * ((points.at(-1)?.x ?? 0) - (points[0]?.x ?? 0));
  return {
    faults: scene.faults,
    figures: [
      { what: "turns", value: counts.turns },
      { what: "of these with a tool call / whose client went away", value: `${counts.calls} / ${counts.cuts}` },
      { what: "deaths of the MCP server", value: counts.restarts },
      {
        what: "growth of the heap after a collection, for 10,000 turns",
        value: `${slope.toFixed(2)} MB`,
        goal: `≤ ${SLOPE} MB, or ${NOISE} MB in all`,
        ok: slope <= SLOPE || grown <= NOISE,
      },
      none("handles, processes and files left over, failures", scene.faults.length),
    ],
  };
}

export const soakPart: Part = {
  name: "soak",
  about: "many turns with tools, disconnects and hub restarts: nothing piles up",
  rows: ["P9"],
  run,
};
