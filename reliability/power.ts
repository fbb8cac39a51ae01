/**
 * Part `power`: the power fails. Every write, sync and cut of the database's files is recorded from outside (strace);
 * for many moments the files are put together as a disk would hold them that kept what was synced, and of the rest
 * whatever it liked: nothing, some blocks, all.
 *
 * Invariant: whatever had been acknowledged before the moment is there, and the database is whole.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { createDatabaseDoctor } from "../src/store/doctor.ts";
import { openSqliteStore } from "../src/store/sqlite.ts";
import { Chance, none, type Outcome, type Part, type Setting } from "./part.ts";
import { ended } from "./server.ts";

const IN_CI = 150;
const TURNS = 60;
/** A disk writes so much at once, or not at all. */
const SECTOR = 512;

type Change = { at: number; bytes: Buffer } | { length: number };

/** A file as the disk has it, and what was asked of it since the last sync. */
class DiskFile {
  #durable: Buffer = Buffer.alloc(0);
  #pending: Change[] = [];

  write(at: number, bytes: Buffer): void {
    this.#pending.push({ at, bytes });
  }

  cut(length: number): void {
    this.#pending.push({ length });
  }

  sync(): void {
    this.#durable = this.#pending.reduce<Buffer>(applied, this.#durable);
    this.#pending = [];
  }

  /** What is found after the power came back. `keep` decides about each sector of each write that was not synced. */
  found(keep: () => boolean): Buffer {
    return this.#pending.reduce<Buffer>((bytes, change) => {
      if ("length" in change) return keep() ? applied(bytes, change) : bytes;
      let found = bytes;
      for (let from = 0; from < change.bytes.length; from += SECTOR) {
        if (!keep()) continue;
        found = applied(found, { at: change.at + from, bytes: change.bytes.subarray(from, from + SECTOR) });
      }
      return found;
    }, this.#durable);
  }
}

function applied(before: Buffer, change: Change): Buffer {
  if ("length" in change) {
    const cut = Buffer.alloc(change.length);
    before.copy(cut, 0, 0, change.length);
    return cut;
  }
  const { at, bytes } = change;
  const after = Buffer.alloc(Math.max(before.length, at + bytes.length));
  before.copy(after);
  bytes.copy(after, at);
  return after;
}

type Call =
  | { kind: "write"; file: string; at: number; bytes: Buffer }
  | { kind: "cut"; file: string; length: number }
  | { kind: "sync"; file: string }
  | { kind: "gone"; file: string }
  | { kind: "told"; text: string };

/** One line of strace (`-y -xx`): `pwrite64(21<\x2f…>, "\x…", 1024, 0) = 1024`. */
function callOf(line: string): Call | undefined {
  const [, name = "", rest = ""] = /^(?:\d+\s+)?(\w+)\((.*)\)\s+= (?:0x)?\d+/.exec(line) ?? [];
  if (name === "unlink") return { kind: "gone", file: textOf(/"([^"]*)"/.exec(rest)?.[1] ?? "") };
  const [, descriptor = "", path = ""] = /^(\d+)<([^>]*)>/.exec(rest) ?? [];
  const file = textOf(path);
  if (name === "write" && descriptor === "3") return { kind: "told", text: textOf(/"([^"]*)"/.exec(rest)?.[1] ?? "") };
  if (name === "fsync" || name === "fdatasync") return { kind: "sync", file };
  if (name === "ftruncate") return { kind: "cut", file, length: Number(/, (\d+)$/.exec(rest)?.[1]) };
  if (name !== "pwrite64") return undefined;
  const [, hex = "", at = ""] = /"([^"]*)", \d+, (\d+)$/.exec(rest) ?? [];
  return { kind: "write", file, at: Number(at), bytes: Buffer.from(hex.replaceAll("\\x", ""), "hex") };
}

function textOf(hex: string): string {
  return hex.includes("\\x") ? Buffer.from(hex.replaceAll("\\x", ""), "hex").toString("utf8") : hex;
}

async function record({ build }: Setting, folder: string): Promise<Call[]> {
  const trace = join(folder, "trace");
  const path = join(folder, "recorded", "rotunda.db");
  mkdirSync(join(folder, "recorded"));
  const calls = "trace=pwrite64,write,fsync,fdatasync,ftruncate,unlink";
  const args = ["-f", "-qq", "-y", "-xx", "-s", "1000000", "-o", trace, "-e", calls, "-e", "signal=none"];
  const child = spawn("strace", [...args, process.execPath, build.program("commits"), path, String(TURNS)], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  // What it says to its client is read from the trace.
  (child.stdio[3] as Readable).resume();
  const { said } = await ended(child, 120_000);
  const found = readFileSync(trace, "latin1")
    .split("\n")
    .flatMap((line) => callOf(line) ?? []);
  if (!found.some(({ kind }) => kind === "told")) throw new Error(`nothing was recorded: ${said}`);
  return found;
}

/** The files as they are found when the power fails after so many calls. */
function cutAfter(
  calls: readonly Call[],
  count: number,
  keep: () => boolean,
): { files: Map<string, Buffer>; told: string[] } {
  const files = new Map<string, DiskFile>();
  const told: string[] = [];
  for (const call of calls.slice(0, count)) {
    if (call.kind === "told") {
      told.push(call.text.trim());
      continue;
    }
    const name = call.file.split("/").at(-1) ?? "";
    if (!/^rotunda\.db(-wal)?$/.test(name)) continue;
    if (call.kind === "gone") {
      files.delete(name);
      continue;
    }
    const file = files.get(name) ?? new DiskFile();
    files.set(name, file);
    if (call.kind === "write") file.write(call.at, call.bytes);
    else if (call.kind === "cut") file.cut(call.length);
    else file.sync();
  }
  return { files: new Map([...files].map(([name, file]) => [name, file.found(keep)])), told };
}

async function judge(folder: string, told: readonly string[], where: string, faults: string[]): Promise<void> {
  const path = join(folder, "rotunda.db");
  const store = await openSqliteStore(path).catch((error: unknown) => {
    faults.push(`${where}: ${String(error)}`);
  });
  if (!store) return;
  try {
    for (const line of told) {
      const [what, id = ""] = line.split(" ");
      const node = await store.node(id);
      if (!node) faults.push(`${where}: acknowledged and lost: ${id}`);
      else if (what === "ended" && node.status !== "completed") faults.push(`${where}: the end of ${id} is lost`);
    }
  } finally {
    await store.close();
  }
  const { pages, damaged, unreadable } = await createDatabaseDoctor(path).examine();
  if (pages.length + damaged.length > 0 || unreadable)
    faults.push(`${where}: ${JSON.stringify({ pages, damaged, unreadable })}`);
}

async function run(setting: Setting): Promise<Outcome> {
  if (spawnSync("strace", ["-e", "trace=fsync", "true"]).status !== 0) {
    const lack = "power cuts: strace is missing, or may not trace (apt-get install strace)";
    return { faults: [], figures: [], skipped: [lack] };
  }
  const cuts = setting.cycles ?? IN_CI;
  const chance = new Chance(setting.seed);
  const faults: string[] = [];
  const folder = mkdtempSync(join(setting.build.folder, "power-"));
  const calls = await record(setting, folder);
  let acknowledged = 0;
  for (let cut = 1; cut <= cuts && !(setting.first && faults.length > 0); cut++) {
    const count = chance.between(1, calls.length);
    // A disk that kept nothing, one that kept everything, and all between.
    const share = chance.one([0, 0, 0.2, 0.5, 0.8, 1]);
    const { files, told } = cutAfter(calls, count, () => chance.next() < share);
    const place = join(folder, "found");
    mkdirSync(place);
    for (const [name, bytes] of files) writeFileSync(join(place, name), bytes);
    acknowledged += told.length;
    await judge(place, told, `cut after call ${count} of ${calls.length}, ${share * 100} % of the rest kept`, faults);
    rmSync(place, { recursive: true });
  }
  return {
    faults,
    figures: [
      { what: "simulated power cuts", value: cuts },
      { what: "system calls recorded", value: calls.length },
      { what: "acknowledged facts looked for", value: acknowledged },
      none("lost, or the database not whole", faults.length),
    ],
  };
}

export const power: Part = {
  name: "power",
  about: "power cuts, simulated from the recorded system calls",
  rows: ["P2"],
  run,
};
