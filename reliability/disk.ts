/**
 * Part `disk`: a disk that is full, one that is read-only, and one whose fsync fails.
 *
 * Invariant: what cannot be stored is refused and never acknowledged; what was stored is still read, streamed and
 * cancelled; with room again it goes on without a restart; after a failed fsync the database is closed and opened anew.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "./client.ts";
import { question, startEndpoint } from "./endpoint.ts";
import { History } from "./history.ts";
import { Load } from "./load.ts";
import { judge } from "./oracle.ts";
import { Chance, none, type Outcome, type Part, type Setting } from "./part.ts";
import { eventually, makePlace, type Place, runRotunda, Server } from "./server.ts";

/** Megabytes of the small disk. */
const SIZE = 8;

interface Scene {
  place: Place;
  server: Server;
  client: Client;
  history: History;
  load: Load;
  faults: string[];
}

async function scene(
  setting: Setting,
  state: string | undefined,
  play: (scene: Scene) => Promise<void>,
  before?: string[],
): Promise<string[]> {
  const endpoint = await startEndpoint();
  const options = { build: setting.build, endpoint: endpoint.url };
  const place = makePlace({ ...options, ...(state !== undefined && { state }) });
  const server = await Server.on({
    build: setting.build,
    place,
    ...(before && { before: before.map((word) => word.replace("PLACE", place.folder)) }),
  });
  const history = new History(join(place.folder, "history.jsonl"));
  const client = new Client(() => [server], new Chance(setting.seed), 30_000);
  const load = new Load({ client, history, chance: new Chance(setting.seed), name: "disk" });
  const faults: string[] = [];
  try {
    await play({ place, server, client, history, load, faults });
  } finally {
    server.signal("SIGKILL");
    await endpoint.close();
    if (faults.length + history.faults.length === 0) place.remove();
    else setting.tell(`the place is ${place.folder}`);
  }
  return faults;
}

function fill(folder: string): string {
  const path = join(folder, "filler");
  for (let size = 1 << 20; size >= 512; size >>= 1) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(size), { flag: "a" });
    } catch {
      // The next piece is smaller.
    }
  }
  return path;
}

async function full({ place, server, client, history, load, faults }: Scene): Promise<number> {
  await server.start();
  for (const kind of ["stream", "background", "effects", "turns"]) await load.once(kind);
  const [known = ""] = history.acknowledged;
  const slow = { model: "test-model", input: question({ words: 2_000, delay: 20 }), background: true };
  const running = (await client.ask("/v1/responses", { body: slow })).json as { id: string };
  const second = (await client.ask("/v1/responses", { body: { ...slow, input: question({ words: 300, delay: 20 }) } }))
    .json as { id: string };
  history.acknowledge(running.id, "slow");
  history.acknowledge(second.id, "slow");
  const filler = fill(place.state);
  const body = { model: "test-model", input: question({}), background: true };
  let refused = 0;
  for (let turn = 0; turn < 400 && refused < 5; turn++) {
    const { status, json } = await client.ask("/v1/responses", { body });
    if (status === 200) history.acknowledge((json as { id: string }).id, "small");
    else {
      refused++;
      const { code } = ((json as { error?: { code?: string } }).error ?? {}) as { code?: string };
      if (status !== 507 || code !== "storage_full")
        faults.push(`a turn on a full disk: ${status} ${JSON.stringify(json)}`);
    }
  }
  if (refused < 5) faults.push(`the disk is full, and ${refused} turns were refused`);
  if ((await client.ask(`/v1/responses/${known}`)).status !== 200)
    faults.push("a response cannot be read on a full disk");
  if ((await client.ask("/v1/responses?limit=5")).status !== 200)
    faults.push("responses cannot be listed on a full disk");
  const end = await client.read(`/v1/responses/${known}?stream=true`, {}, () => true);
  if (end !== "done") faults.push(`a stream cannot be read on a full disk: ${end}`);
  // That it was cancelled cannot be written down yet; but it stops, and does not go on when there is room.
  const cancelled = await client.ask(`/v1/responses/${running.id}/cancel`, { method: "POST", body: {}, final: [409] });
  if (![200, 507].includes(cancelled.status))
    faults.push(`cancel on a full disk: ${cancelled.status} ${JSON.stringify(cancelled.json)}`);
  const space = performance.now();
  rmSync(filler);
  const again = await eventually(async () => (await client.ask("/v1/responses", { body })).status === 200, 10_000);
  if (!again) faults.push("there is room again, and turns are still refused");
  const recovered = performance.now() - space;
  for (const id of history.acknowledged) {
    const { status } = await client.untilEnd(id);
    if ((id === running.id) !== (status === "cancelled"))
      faults.push(`${id === running.id ? "cancelled" : "running"} on a full disk, then ${status}`);
  }
  await load.once("effects");
  const { code, said } = await server.stop("SIGTERM");
  if (code !== 0) faults.push(`the server left with ${code}: ${said}`);
  faults.push(...(await judge(place, history)));
  return recovered;
}

/** On a disk that can no longer be written: one clear line, and no server. */
async function readOnly({ build }: Setting, mount: string, { place, server, load, faults }: Scene): Promise<void> {
  await server.start();
  await load.once("background");
  await server.stop("SIGTERM");
  spawnSync("mount", ["-o", "remount,ro", mount]);
  const { code, said, out } = await runRotunda(build, place, ["serve", "--port", "0"], 10_000);
  const lines = said.trim().split("\n");
  if (
    code === 0 ||
    code === null ||
    out !== "" ||
    lines.length > 2 ||
    !/cannot be opened for writing|read-only/.test(said)
  ) {
    faults.push(`on a read-only disk: ${code} ${JSON.stringify(said)}`);
  }
  spawnSync("mount", ["-o", "remount,rw", mount]);
  await server.start();
  await load.once("background");
  await server.stop("SIGTERM");
}

async function onSmallDisk(setting: Setting, outcome: Outcome): Promise<void> {
  const mount = join(setting.build.folder, "small-disk");
  mkdirSync(mount, { recursive: true });
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${SIZE}m`, "tmpfs", mount]);
  if (mounted.status !== 0) {
    outcome.skipped?.push("full and read-only disk: this user may not mount a tmpfs");
    return;
  }
  try {
    let recovered = 0;
    const faults = await scene(setting, join(mount, "full"), async (one) => {
      recovered = await full(one);
    });
    outcome.faults.push(...faults);
    const { bavail } = statfsSync(mount);
    if (bavail === 0) outcome.faults.push("the disk stayed full");
    outcome.figures.push(
      none("full disk: broken promises (507, reads, streams, cancel, nothing lost)", faults.length),
      { what: "turns are taken again after there is room", value: `${Math.round(recovered)} ms` },
    );
    const readOnlyFaults = await scene(setting, join(mount, "read-only"), (one) => readOnly(setting, mount, one));
    outcome.faults.push(...readOnlyFaults);
    outcome.figures.push(
      none(
        "read-only disk: broken promises (one clear line, works again when it can be written)",
        readOnlyFaults.length,
      ),
    );
  } finally {
    spawnSync("umount", ["-l", mount]);
  }
}

// ---- fsync fails

interface Syncs {
  failed: number;
  /** Writes to a file that was open when a sync of it failed. */
  trusted: number;
}

/** What the trace says: after a failed sync nothing more must be written to the file as it was open then. */
function syncsOf(trace: string): Syncs {
  const found: Syncs = { failed: 0, trusted: 0 };
  const suspect = new Set<string>();
  for (const line of trace.split("\n")) {
    const [, call = "", file = ""] = /\b(fsync|fdatasync|close|pwrite64)\((\d+)/.exec(line) ?? [];
    if (file === "") continue;
    if (call === "close") suspect.delete(file);
    else if (line.includes("EIO")) {
      found.failed++;
      suspect.add(file);
    } else if (call === "pwrite64" && suspect.has(file)) found.trusted++;
  }
  return found;
}

/**
 * When the disk fails to the very end of the process, the log cannot be cut, and a turn that was refused is in it after
 * all: the next server runs it to its end, as any other.
 */
async function startedAnew({ build, seed }: Setting, place: Place): Promise<string[]> {
  const server = await Server.on({ build, place });
  await server.start();
  const client = new Client(() => [server], new Chance(seed), 30_000);
  const ended = await eventually(async () => {
    const { json } = await client.ask("/v1/responses?limit=100");
    return (json as { data: { status: string }[] }).data.every(({ status }) => !isOpen(status));
  });
  const { code, said } = await server.stop("SIGTERM");
  return [
    ...(ended ? [] : ["a response is open after the next start"]),
    ...(code === 0 ? [] : [`the next server left with ${code}: ${said}`]),
  ];
}

function isOpen(status: string): boolean {
  return status === "queued" || status === "in_progress";
}

async function failingSync(setting: Setting, outcome: Outcome): Promise<void> {
  if (spawnSync("strace", ["-e", "trace=fsync", "true"]).status !== 0) {
    outcome.skipped?.push("EIO of fsync: strace is missing, or may not trace (apt-get install strace)");
    return;
  }
  let syncs: Syncs = { failed: 0, trusted: 0 };
  const chance = new Chance(setting.seed);
  const rounds = setting.cycles ?? 4;
  const counts = { refused: 0, acknowledged: 0 };
  for (let round = 0; round < rounds; round++) {
    const first = chance.between(8, 40);
    const rule = `inject=fsync,fdatasync:error=EIO:when=${first}..${first + chance.between(0, 3)}`;
    const before = [
      "strace",
      "-D",
      "-f",
      "-qq",
      "-o",
      "PLACE/trace",
      "-P",
      "PLACE/state/rotunda.db-wal",
      "-e",
      "trace=fsync,fdatasync,close,pwrite64",
      "-e",
      rule,
    ];
    const faults = await scene(
      setting,
      undefined,
      async ({ place, server, client, history, load, faults: found }) => {
        await server.start();
        const body = { model: "test-model", input: question({}), background: true };
        for (let turn = 0; turn < 30; turn++) {
          const { status, json } = await client.ask("/v1/responses", { body, final: [500] });
          if (status === 200) history.acknowledge((json as { id: string }).id, "plain");
          else counts.refused++;
          if (status !== 200 && status !== 500)
            found.push(`a turn whose sync fails: ${status} ${JSON.stringify(json)}`);
          await sleep(5);
        }
        await load.once("effects");
        for (const id of history.acknowledged) await client.untilEnd(id);
        const { code, said } = await server.stop("SIGTERM");
        if (code !== 0) found.push(`the server left with ${code}: ${said}`);
        const trace = existsSync(join(place.folder, "trace")) ? readFileSync(join(place.folder, "trace"), "utf8") : "";
        const seen = syncsOf(trace);
        syncs = { failed: syncs.failed + seen.failed, trusted: syncs.trusted + seen.trusted };
        counts.acknowledged += history.acknowledged.size;
        found.push(...(await startedAnew(setting, place)), ...(await judge(place, history)));
      },
      before,
    );
    outcome.faults.push(...faults);
  }
  if (syncs.failed === 0) outcome.faults.push("no sync failed: nothing was shown");
  if (syncs.trusted > 0)
    outcome.faults.push(`after a failed sync the same open file was written to ${syncs.trusted} times more`);
  outcome.figures.push(
    { what: "syncs of the log that failed with EIO", value: syncs.failed },
    none("writes to the log as it was open when a sync failed", syncs.trusted),
    { what: "turns acknowledged around them, all there", value: counts.acknowledged },
    { what: "turns refused with `storage_failed`", value: counts.refused },
  );
}

async function run(setting: Setting): Promise<Outcome> {
  const outcome: Outcome = { figures: [], faults: [], skipped: [] };
  if (!setting.first) await onSmallDisk(setting, outcome);
  await failingSync(setting, outcome);
  return outcome;
}

export const disk: Part = {
  name: "disk",
  about: "a full disk, a read-only one, and an fsync that fails",
  rows: ["P3", "P4", "P5"],
  run,
};
