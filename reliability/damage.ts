/**
 * Part `damage`: bytes flip in the database file.
 *
 * Invariant: no reader is ever given a response that says something else than what was stored: it is what it was, or
 * it is said to be damaged. `rotunda doctor` finds it; after `--repair` everything that is left is what it was.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { createDatabaseDoctor } from "../src/store/doctor.ts";
import type { Store } from "../src/types/store.ts";
import { Client } from "./client.ts";
import { startEndpoint } from "./endpoint.ts";
import { History } from "./history.ts";
import { Load } from "./load.ts";
import { Chance, none, type Outcome, type Part, type Setting } from "./part.ts";
import { makePlace, type Place, runRotunda, Server } from "./server.ts";

const IN_CI = 60;
const ERRANDS = 40;
/** One damage in so many is repaired by the program itself, and served by a server afterwards. */
const WITH_PROGRAM = 12;

/** The store of the sources under test: a mutant's, where it is one. */
type Open = typeof import("../src/store/sqlite.ts").openSqliteStore;

interface Known {
  /** By id: node and items, as text. */
  responses: Map<string, string>;
  /** By id: the log. */
  logs: Map<string, string>;
}

interface Counts {
  unreadable: number;
  pages: number;
  responses: number;
  logs: number;
  wrongLogs: number;
  quarantined: number;
  served: number;
  beyondRepair: number;
}

/** A database with all kinds of content, made by a server. */
async function makeDatabase({ build, seed }: Setting, place: Place): Promise<void> {
  const history = new History(join(place.folder, "history.jsonl"));
  const server = await Server.on({ build, place });
  await server.start();
  const client = new Client(() => [server], new Chance(seed));
  const load = new Load({ client, history, chance: new Chance(seed), name: "d" });
  for (let errand = 0; errand < ERRANDS; errand += 4) await Promise.all([0, 1, 2, 3].map(() => load.once()));
  await server.stop("SIGTERM");
  const [fault] = history.faults;
  if (fault) throw new Error(fault);
}

async function content(store: Store, id: string): Promise<string | undefined> {
  const stored = await store.get(id);
  return stored && JSON.stringify(stored);
}

async function known(open: Open, path: string): Promise<Known> {
  const store = await open(path);
  const found: Known = { responses: new Map(), logs: new Map() };
  for (const { id } of await store.list({ limit: 100_000 })) {
    found.responses.set(id, (await content(store, id)) ?? "");
    found.logs.set(id, JSON.stringify(await store.events(id, -1, 100_000)));
  }
  await store.close();
  return found;
}

/** One to eight bytes of one page, anywhere in the file. */
function flip(path: string, chance: Chance): string {
  const bytes = readFileSync(path);
  const page = chance.between(0, Math.floor(bytes.length / 1_024) - 1);
  const at: number[] = [];
  for (let count = chance.between(1, 8); count > 0; count--) {
    const offset = page * 1_024 + chance.between(0, 1_023);
    bytes[offset] = (bytes[offset] ?? 0) ^ chance.between(1, 255);
    at.push(offset % 1_024);
  }
  writeFileSync(path, bytes);
  return `page ${page + 1}, bytes ${at.join(" ")}`;
}

class Trial {
  readonly #open: Open;
  readonly #truth: Known;
  readonly #where: string;
  readonly #faults: string[];
  readonly #counts: Counts;

  constructor(open: Open, truth: Known, where: string, faults: string[], counts: Counts) {
    this.#open = open;
    this.#truth = truth;
    this.#where = where;
    this.#faults = faults;
    this.#counts = counts;
  }

  #fault(text: string): void {
    this.#faults.push(`${this.#where}: ${text}`);
  }

  /** Reads everything. Returns the ids that could be read, and were right. */
  async read(path: string, repaired: boolean): Promise<Set<string> | undefined> {
    let store: Store;
    try {
      store = await this.#open(path);
    } catch {
      this.#counts.unreadable++;
      return undefined;
    }
    const right = new Set<string>();
    try {
      for (const id of this.#truth.responses.keys()) if (await this.#readOne(store, id, repaired)) right.add(id);
      await this.#list(store, repaired);
    } finally {
      await store.close().catch(() => undefined);
    }
    return right;
  }

  async #readOne(store: Store, id: string, repaired: boolean): Promise<boolean> {
    let text: string | undefined;
    try {
      text = await content(store, id);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "storage_damaged") this.#fault(`${id} is read with the error ${code}: ${(error as Error).message}`);
      if (repaired) this.#fault(`${id} cannot be read after the repair: ${(error as Error).message}`);
      return false;
    }
    // Whoever is taken out, or whose row is lost, is not there.
    if (text === undefined) return false;
    if (text !== this.#truth.responses.get(id)) {
      this.#fault(`${id} is given and is not what was stored`);
      return false;
    }
    await this.#readLog(store, id, repaired);
    return true;
  }

  async #readLog(store: Store, id: string, repaired: boolean): Promise<void> {
    try {
      const log = JSON.stringify(await store.events(id, -1, 100_000));
      if (log !== this.#truth.logs.get(id) && !repaired) this.#counts.wrongLogs++;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "storage_damaged") this.#fault(`the log of ${id} is read with ${code}: ${(error as Error).message}`);
      if (repaired) this.#fault(`the log of ${id} cannot be read after the repair`);
    }
  }

  async #list(store: Store, repaired: boolean): Promise<void> {
    try {
      await store.list({ limit: 100_000 });
      await store.conversations({ limit: 100_000 });
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "storage_damaged" || repaired)
        this.#fault(`the list fails with ${code}: ${(error as Error).message}`);
    }
  }

  async examine(path: string, right: ReadonlySet<string> | undefined): Promise<void> {
    const found = await createDatabaseDoctor(path).examine();
    if (found.pages.length > 0) this.#counts.pages++;
    this.#counts.responses += found.damaged.filter(({ logOnly }) => !logOnly).length;
    this.#counts.logs += found.damaged.filter(({ logOnly }) => logOnly).length;
    const all = this.#truth.responses.size;
    const sound =
      found.pages.length === 0 && found.damaged.length === 0 && found.rows.length === 0 && found.unreadable === null;
    if (sound && right !== undefined && right.size < all)
      this.#fault(`the doctor finds nothing, and ${all - right.size} cannot be read`);
  }

  async repair(path: string): Promise<boolean> {
    const doctor = createDatabaseDoctor(path);
    try {
      const { quarantined } = await doctor.repair();
      this.#counts.quarantined += quarantined.length;
    } catch (error) {
      // Said so, with the way out.
      if ((error as { code?: string }).code !== "storage_damaged") this.#fault(`repair: ${(error as Error).message}`);
      this.#counts.beyondRepair++;
      return false;
    }
    const after = await doctor.examine();
    if (after.unreadable !== null || after.pages.length > 0 || after.damaged.length > 0 || after.rows.length > 0) {
      this.#fault(`after the repair: ${JSON.stringify({ ...after, audit: undefined })}`);
    }
    this.#counts.served += (await this.read(path, true))?.size ?? 0;
    return true;
  }
}

/** The program itself: `doctor`, `doctor --repair`, and a server that serves what is left. */
async function withProgram(setting: Setting, place: Place, where: string, faults: string[]): Promise<void> {
  const found = await runRotunda(setting.build, place, ["doctor", "--json"]);
  const mended = await runRotunda(setting.build, place, ["doctor", "--repair", "--json"]);
  if (mended.code !== 0) {
    if (!mended.said.includes("backup") && !mended.out.includes("backup")) {
      faults.push(
        `${where}: doctor --repair: ${mended.code} ${mended.said}${mended.out.slice(0, 500)} (before: ${found.code})`,
      );
    }
    return;
  }
  const server = await Server.on({ build: setting.build, place });
  try {
    await server.start();
    const client = new Client(() => [server], new Chance(1), 10_000);
    const { status } = await client.ask("/v1/responses?limit=100");
    const asked = await client.ask("/v1/responses", { body: { model: "test-model", input: "do {} please" } });
    if (status !== 200 || asked.status !== 200) faults.push(`${where}: served with ${status} and ${asked.status}`);
    const { code, said } = await server.stop("SIGTERM");
    if (code !== 0) faults.push(`${where}: the server left with ${code}: ${said}`);
  } catch (error) {
    faults.push(`${where}: ${(error as Error).message}`);
  } finally {
    server.signal("SIGKILL");
  }
}

async function run(setting: Setting): Promise<Outcome> {
  const trials = setting.cycles ?? IN_CI;
  const sources = pathToFileURL(join(setting.build.folder, "src/store/sqlite.ts")).href;
  const { openSqliteStore } = (await import(sources)) as { openSqliteStore: Open };
  const endpoint = await startEndpoint();
  const place = makePlace({ build: setting.build, endpoint: endpoint.url });
  const faults: string[] = [];
  const counts: Counts = {
    unreadable: 0,
    pages: 0,
    responses: 0,
    logs: 0,
    wrongLogs: 0,
    quarantined: 0,
    served: 0,
    beyondRepair: 0,
  };
  const chance = new Chance(setting.seed);
  let truth: Known | undefined;
  try {
    await makeDatabase(setting, place);
    truth = await known(openSqliteStore, place.database);
    const sound = await createDatabaseDoctor(place.database).examine();
    if (sound.damaged.length > 0 || sound.audit !== null) faults.push(`unharmed: ${JSON.stringify(sound)}`);
    for (let trial = 1; trial <= trials && !(setting.first && faults.length > 0); trial++) {
      const folder = join(place.folder, `trial-${trial}`);
      mkdirSync(folder);
      const path = join(folder, "rotunda.db");
      copyFileSync(place.database, path);
      const where = `trial ${trial}, ${flip(path, chance)}`;
      if (trial % WITH_PROGRAM === 0) {
        copyFileSync(path, join(folder, "program.db"));
        const own = { ...place, state: folder, environment: { ...place.environment, ROTUNDA_HOME: folder } };
        await withProgram(setting, own, where, faults);
        copyFileSync(join(folder, "program.db"), path);
      }
      const one = new Trial(openSqliteStore, truth, where, faults, counts);
      const right = await one.read(path, false);
      await one.examine(path, right);
      await one.repair(path);
    }
  } finally {
    await endpoint.close();
    if (faults.length === 0) place.remove();
    else setting.tell(`the trials are in ${place.folder}`);
  }
  return { faults, figures: figuresOf(trials, truth, counts, faults) };
}

function figuresOf(
  trials: number,
  truth: Known | undefined,
  counts: Counts,
  faults: readonly string[],
): Outcome["figures"] {
  const all = truth?.responses.size ?? 0;
  const repaired = trials - counts.beyondRepair;
  const share = repaired === 0 ? 0 : (100 * counts.served) / (repaired * all);
  return [
    { what: "files with flipped bytes in one page", value: trials },
    { what: "responses in each", value: all },
    none("responses given that are not what was stored, and other broken promises", faults.length),
    { what: "files in which the database's own check finds something", value: counts.pages },
    { what: "responses that their hash or form gives away", value: counts.responses },
    { what: "responses of which only the log is damaged, found by the doctor", value: counts.logs },
    {
      what: "of these read before the repair with a wrong piece in the log (logs have no hash)",
      value: counts.wrongLogs,
    },
    { what: "responses taken out by the repair", value: counts.quarantined },
    { what: "responses served after the repair", value: `${share.toFixed(2)} %` },
    { what: "files that cannot be repaired (the list of tables is hit), said so", value: counts.beyondRepair },
  ];
}

export const damage: Part = {
  name: "damage",
  about: "flipped bytes in pages, the doctor and its repair",
  rows: ["P6"],
  run,
};
