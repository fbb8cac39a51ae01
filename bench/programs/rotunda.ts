/** Ours: runs jobs with the built library, every step durable, as any program that uses it would. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Rotunda, Tool } from "../../src/index.ts";
import { type Job, type Outcome, prompt, TOOL } from "./messages.ts";

const { createRotunda } = (await import(
  new URL("../../dist/index.js", import.meta.url).href
)) as typeof import("../../src/index.ts");

/** Its effects must not come twice: the hardest case, as the start of each call is durable before it runs. */
const effects: Tool = {
  name: TOOL.name,
  description: TOOL.description,
  input: TOOL.parameters,
  server: "bench",
  serverName: TOOL.name,
  access: "run",
  repeatable: false,
  run: async ({ number }) => ({ text: `The number is ${String(number)}.` }),
};

const reads: Tool = { ...effects, access: "read", repeatable: true };

const { ROTUNDA_HOME = "" } = process.env;
const rotundas: Record<NonNullable<Job["tool"]>, Rotunda> = {
  effects: await rotundaWith("effects", effects),
  reads: await rotundaWith("reads", reads),
};

function rotundaWith(name: string, tool: Tool): Promise<Rotunda> {
  return createRotunda({ workspace: process.cwd(), stateDirectory: join(ROTUNDA_HOME, name), tools: [tool] });
}

const settings = { limits: { turns: 1_000_000, seconds: 100_000, tokens: 1e12 } };

function written(): number {
  return Number(/^write_bytes: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1] ?? Number.NaN);
}

async function converse({ conversations, turns, steps, tool = "effects" }: Job, outcome: Outcome): Promise<void> {
  let from: string | undefined;
  for (let turn = 0; turn < turns; turn++) {
    const bytes = conversations === 1 ? written() : 0;
    const began = performance.now();
    const { response } = await rotundas[tool].run(prompt(steps), { settings, ...(from !== undefined && { from }) });
    if (conversations === 1) outcome.turns.push({ wall: performance.now() - began, written: written() - bytes });
    if (response.turns !== steps + 1) throw new Error(`the turn had ${response.turns} steps, not ${steps + 1}`);
    from = response.id;
  }
}

process.on("message", async (job: Job) => {
  const outcome: Outcome = { wall: 0, cpu: 0, turns: [] };
  const cpu = process.cpuUsage();
  const began = performance.now();
  await Promise.all(Array.from({ length: job.conversations }, () => converse(job, outcome)));
  outcome.wall = performance.now() - began;
  const used = process.cpuUsage(cpu);
  outcome.cpu = used.user + used.system;
  process.send?.(outcome);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
