/**
 * A plain one-shot turn of the command line: how soon its model request arrives, what it writes, what memory
 * it takes, and what ten configured MCP servers add.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inTurns, type Measurement, median, medianDifference, type Row, type Settings } from "./measurement.ts";
import {
  BARE_POST,
  bytesWritten,
  here,
  makePlace,
  modelConfig,
  type Place,
  ROTUNDA,
  runNode,
  sharedNow,
  startUpstreamProcess,
  type UpstreamProcess,
} from "./processes.ts";

const CHAT = [ROTUNDA, "chat", "Say that all is well."];

/** A place with a configuration, a database and a warm compile cache, and the body that a turn sends there. */
async function prepare(upstream: UpstreamProcess): Promise<{ place: Place; post: string[] }> {
  const place = makePlace(modelConfig(upstream.url));
  for (let turn = 0; turn < 3; turn++) await runNode(CHAT, place);
  const file = join(place.folder, "body.json");
  writeFileSync(file, (await upstream.last()).body);
  return { place, post: [BARE_POST, upstream.url, file] };
}

/** Milliseconds from the start of the process until its request has arrived. */
async function arrival(upstream: UpstreamProcess, args: readonly string[], place: Place): Promise<number> {
  const began = sharedNow();
  await runNode(args, place);
  const { moment } = await upstream.last();
  if (moment < began) throw new Error(`${args.join(" ")} sent no request`);
  return moment - began;
}

function measurement(name: string, measure: (upstream: UpstreamProcess, settings: Settings) => Promise<Row[]>) {
  return {
    name,
    async run(settings) {
      const upstream = await startUpstreamProcess();
      try {
        return await measure(upstream, settings);
      } finally {
        upstream.close();
      }
    },
  } satisfies Measurement;
}

export const startUp = measurement("start-up", async (upstream, { quick }) => {
  const { place, post } = await prepare(upstream);
  const values = await inTurns(quick ? 7 : 31, {
    ours: () => arrival(upstream, CHAT, place),
    bare: () => arrival(upstream, post, place),
  });
  place.remove();
  const [ours, bare] = [median(values.ours), median(values.bare)];
  const name = "start of `rotunda chat` until its model request has arrived";
  return [{ name, ours, bare, unit: "ms", value: ours / bare, valueUnit: "×", goal: 2 }];
});

export const bytes = measurement("bytes", async (upstream, { quick }) => {
  const { place } = await prepare(upstream);
  const written: number[] = [];
  for (let turn = 0; turn < (quick ? 7 : 31); turn++) {
    const before = bytesWritten();
    await runNode(CHAT, place);
    written.push((bytesWritten() - before) / 1024);
  }
  place.remove();
  const value = median(written);
  // A file system in memory counts no bytes: no number is better than a wrong one.
  if (!(value > 0)) throw new Error("the kernel counts no bytes here; set ROTUNDA_BENCH_DIR to a folder on a disk");
  const mean = written.reduce((sum, one) => sum + one, 0) / written.length;
  const note = `whole pages, by the kernel's count; mean ${mean.toFixed(1)} KB`;
  const name = "bytes written by a one-shot turn";
  return [{ name, ours: value, bare: null, unit: "KB", value, valueUnit: "KB", goal: 48, note }];
});

export const memory = measurement("memory", async (upstream, { quick }) => {
  const { place, post } = await prepare(upstream);
  const file = join(place.folder, "peak");
  const environment = { ...place.environment, BENCH_PEAK: file };
  const peak = async (args: readonly string[]) => {
    await runNode(["--require", here("./bare/peak-memory.cjs"), ...args], { ...place, environment });
    return Number(readFileSync(file, "utf8")) / 1024;
  };
  const values = await inTurns(quick ? 5 : 15, { ours: () => peak(CHAT), bare: () => peak(post) });
  place.remove();
  const [ours, bare] = [median(values.ours), median(values.bare)];
  return [{ name: "peak memory of a one-shot turn", ours, bare, unit: "MB", value: ours, valueUnit: "MB", goal: 90 }];
});

export const servers = measurement("servers", async (upstream, { quick }) => {
  const { place } = await prepare(upstream);
  const file = join(place.folder, "elsewhere", "servers.yaml");
  const lines = Array.from({ length: 10 }, (_, number) => {
    const args = JSON.stringify([here("./programs/mcp-server.ts"), String(number)]);
    return `  server${number}: {command: ${process.execPath}, args: ${args}}`;
  });
  mkdirSync(join(place.folder, "elsewhere"));
  writeFileSync(file, modelConfig(upstream.url, `mcpServers:\n${lines.join("\n")}\n`));
  const plain = join(place.folder, "elsewhere", "plain.yaml");
  writeFileSync(plain, modelConfig(upstream.url));
  // The first turn starts the servers and remembers their lists.
  await runNode([...CHAT, "--config", file], place);
  const { body } = await upstream.last();
  if (!body.includes("server9__three")) throw new Error("the servers' tools were not offered");
  const values = await inTurns(quick ? 7 : 41, {
    with: () => arrival(upstream, [...CHAT, "--config", file], place),
    without: () => arrival(upstream, [...CHAT, "--config", plain], place),
  });
  place.remove();
  const [ours, bare] = [median(values.with), median(values.without)];
  const name = "delay of the first model request by ten MCP servers with remembered lists";
  const value = medianDifference(values.with, values.without);
  const note = "ours: with the servers; bare: the same command without them";
  return [{ name, ours, bare, unit: "ms", value, valueUnit: "ms", goal: 5, note }];
});
