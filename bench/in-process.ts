/**
 * The library in one long-lived process: what we add to a step, to a long conversation, and to many
 * conversations at once.
 */
import { inTurns, type Measurement, median, type Row, type Settings } from "./measurement.ts";
import {
  BARE_LOOP,
  here,
  makePlace,
  modelConfig,
  startUpstreamProcess,
  startWorker,
  type Worker,
} from "./processes.ts";
import { TOOL } from "./programs/messages.ts";

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
  const job = { conversations: 1, turns: 10, steps };
  for (let round = 0; round < 5; round++) for (const worker of [ours, bare]) await worker.run(job);
  const perStep = async (worker: Worker) => {
    const { turns } = await worker.run({ ...job, turns: 1 });
    return (turns[0]?.wall ?? Number.NaN) / (steps + 1);
  };
  const values = await inTurns(quick ? 11 : 61, { ours: () => perStep(ours), bare: () => perStep(bare) });
  const [mine, theirs] = [median(values.ours), median(values.bare)];
  const name = "a step in a turn of 20 tool calls, added to the bare loop";
  const note = "wall time; the call's start and its outcome are on disk before the next step";
  return [{ name, ours: mine, bare: theirs, unit: "ms", value: mine - theirs, valueUnit: "ms", goal: 1, note }];
});

export const longConversation = measurement("long", async ({ ours, bare }, { quick }) => {
  const last = quick ? 500 : 2_000;
  const half = quick ? 5 : 20;
  // Warm, so that the early turns are not slow for another reason.
  for (const worker of [ours, bare]) await worker.run({ conversations: 16, turns: 8, steps: 1 });
  const job = { conversations: 1, turns: last + half, steps: 0 };
  const mine = (await ours.run(job)).turns;
  const theirs = (await bare.run(job)).turns;
  const around = (turns: typeof mine, turn: number, width: number) => turns.slice(turn - width, turn + width);
  const added = (turn: number, width: number) => {
    const of = (turns: typeof mine) => median(around(turns, turn, width).map(({ wall }) => wall));
    return of(mine) - of(theirs);
  };
  const written = (turn: number, width: number) => median(around(mine, turn, width).map((one) => one.written)) / 1024;
  const early = { time: added(10, 5), bytes: written(10, 5) };
  const late = { time: added(last, half), bytes: written(last, half) };
  const compared = `turn ${last} against turn 10 of one conversation`;
  const note = "ours: the late turn; bare: the early one, also ours";
  return [
    {
      name: `${compared}: bytes written`,
      ours: late.bytes,
      bare: early.bytes,
      unit: "KB",
      value: late.bytes / early.bytes,
      valueUnit: "×",
      goal: 1.2,
      note,
    },
    {
      name: `${compared}: time that we add`,
      ours: late.time,
      bare: early.time,
      unit: "ms",
      value: late.time / early.time,
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
