/**
 * The library in one long-lived process: what we add to a step, to a long conversation, and to many
 * conversations at once.
 */
import { inTurns, type Measurement, median, medianDifference, type Row, type Settings } from "./measurement.ts";
import {
  BARE_LOOP,
  here,
  makePlace,
  modelConfig,
  startUpstreamProcess,
  startWorker,
  type Worker,
} from "./processes.ts";
import { type Job, TOOL } from "./programs/messages.ts";

interface Workers {
  ours: Worker;
  bare: Worker;
}

const PROFILE = `profile: bench
profiles:
  bench: {instructions: Answer with what the tools say., tools: [${TOOL.name}], mode: auto}
permissions: {mode: auto}
`;

function measurement(name: string, measure: (workers: Workers, settings: Settings) => Promise<Row[]>): Measurement {
  return {
    name,
    async run(settings) {
      const upstream = await startUpstreamProcess();
      const place = makePlace(modelConfig(upstream.url, PROFILE));
      const workers: Partial<Workers> = {};
      try {
        workers.ours = await startWorker(here("./programs/rotunda.ts"), place, { ROTUNDA_CONFIG: "rotunda.yaml" });
        await workers.ours.run({ conversations: 1, turns: 1, steps: 0 });
        const BENCH_HEAD = headOf((await upstream.last()).body);
        workers.bare = await startWorker(BARE_LOOP, place, { BENCH_URL: upstream.url, BENCH_HEAD });
        return await measure(workers as Workers, settings);
      } finally {
        workers.ours?.close();
        workers.bare?.close();
        upstream.close();
        place.remove();
      }
    },
  };
}

/** The body of a first request up to its first user message: both programs send the same. */
function headOf(body: string): string {
  const { messages, ...rest } = JSON.parse(body) as { messages: { role: string }[] };
  const system = messages.filter(({ role }) => role === "system");
  return `${JSON.stringify({ ...rest, messages: system }).slice(0, -2)}`;
}

export const step = measurement("step", async ({ ours, bare }, { quick }) => {
  const steps = 20;
  const perStep = (worker: Worker, tool: Job["tool"]) => async () => {
    const { turns } = await worker.run({ conversations: 1, turns: 1, steps, tool });
    return (turns[0]?.wall ?? Number.NaN) / (steps + 1);
  };
  const tasks = { effects: perStep(ours, "effects"), reads: perStep(ours, "reads"), bare: perStep(bare, "reads") };
  for (let turn = 0; turn < 50; turn++) for (const task of Object.values(tasks)) await task();
  const values = await inTurns(quick ? 11 : 61, tasks);
  const theirs = median(values.bare);
  const row = (kind: "effects" | "reads", what: string, note: string): Row => {
    const mine = median(values[kind]);
    const value = medianDifference(values[kind], values.bare);
    const name = `a step in a turn of 20 calls of a tool that ${what}, added to the bare loop`;
    return { name, ours: mine, bare: theirs, unit: "ms", value, valueUnit: "ms", goal: 1, note };
  };
  return [
    row("reads", "only reads", "wall time; every step is durable"),
    row("effects", "has effects", "wall time; the start of each call is on disk before it runs: two fsyncs a step"),
  ];
});

export const longConversation = measurement("long", async ({ ours, bare }, { quick }) => {
  const last = quick ? 500 : 2_000;
  const width = 20;
  const long = { conversations: 1, turns: last + width, steps: 0 };
  // The early turns come after the long conversation, and many times: all code is as warm as it will be.
  const mine = (await ours.run(long)).turns.slice(-2 * width);
  const theirs = (await bare.run(long)).turns.slice(-2 * width);
  const early = { mine: [] as typeof mine, theirs: [] as typeof mine };
  for (let round = 0; round < width; round++) {
    const short = { ...long, turns: 12 };
    early.mine.push(...(await ours.run(short)).turns.slice(8, 12));
    early.theirs.push(...(await bare.run(short)).turns.slice(8, 12));
  }
  const wall = (turns: typeof mine) => median(turns.map((turn) => turn.wall));
  const kilobytes = (turns: typeof mine) => median(turns.map((turn) => turn.written)) / 1024;
  const before = { time: wall(early.mine) - wall(early.theirs), bytes: kilobytes(early.mine) };
  const after = { time: wall(mine) - wall(theirs), bytes: kilobytes(mine) };
  const compared = `turn ${last} against turn 10 of one conversation`;
  const note = "ours: the late turn; bare: the early one, also ours";
  return [
    {
      name: `${compared}: bytes written`,
      ours: after.bytes,
      bare: before.bytes,
      unit: "KB",
      value: after.bytes / before.bytes,
      valueUnit: "×",
      goal: 1.2,
      note,
    },
    {
      name: `${compared}: time that we add`,
      ours: after.time,
      bare: before.time,
      unit: "ms",
      value: after.time / before.time,
      valueUnit: "×",
      goal: 2.5,
      note,
    },
  ];
});

export const crowd = measurement("crowd", async ({ ours, bare }, { quick }) => {
  const job = { conversations: 64, turns: 4, steps: 3 };
  const stepsOfJob = job.conversations * job.turns * (job.steps + 1);
  for (let round = 0; round < 3; round++) for (const worker of [ours, bare]) await worker.run(job);
  const perStep = async (worker: Worker) => (await worker.run(job)).cpu / stepsOfJob;
  const values = await inTurns(quick ? 3 : 11, { ours: () => perStep(ours), bare: () => perStep(bare) });
  const [mine, theirs] = [median(values.ours), median(values.bare)];
  const name = "64 conversations at once, three tools a turn: CPU of a model step";
  const note = "user and system time; every step durable";
  return [{ name, ours: mine, bare: theirs, unit: "µs", value: mine / theirs, valueUnit: "×", goal: 3, note }];
});
