/**
 * Calls of MCP tools through our hub, and through hub and gateway, against the SDK's bare client that makes the same
 * calls of the same server.
 *
 * Invariant: client, gateway and server are processes of their own, in the same protocol on both sides, with the same
 * number of calls in flight; every answer is looked at.
 */
import { type ChildProcess, fork } from "node:child_process";
import { inTurns, type Measurement, median, type Row } from "./measurement.ts";
import { answer, here, makePlace } from "./processes.ts";
import type { Calls } from "./programs/mcp-client.ts";
import { type ServerProcess, startRotunda } from "./servers.ts";

/** Ours may take this many times as long: 0.8 of the bare client's calls per second. */
const GOAL = 1 / 0.8;

interface Caller {
  /** Calls per second. */
  rate(calls: Calls): Promise<number>;
  close(): void;
}

async function startCaller(target: object, environment: NodeJS.ProcessEnv): Promise<Caller> {
  const env = { ...environment, BENCH_TARGET: JSON.stringify(target) };
  const child = fork(here("./programs/mcp-client.ts"), { env, stdio: ["ignore", "inherit", "pipe", "ipc"] });
  await answer(child);
  return {
    async rate(calls) {
      child.send(calls);
      const { wall } = await answer<{ wall: number }>(child);
      return calls.count / (wall / 1_000);
    },
    close: () => void child.kill(),
  };
}

async function startHttpServer(): Promise<{ url: string; child: ChildProcess }> {
  const child = fork(here("./programs/mcp-http.ts"), { stdio: ["ignore", "ignore", "pipe", "ipc"] });
  const { url } = await answer<{ url: string }>(child);
  return { url, child };
}

interface Setting {
  http: string;
  gateway: ServerProcess;
  environment: NodeJS.ProcessEnv;
  quick: boolean;
}

async function compare(
  setting: Setting,
  name: string,
  pair: { ours: object; bare: object },
  calls: Calls,
): Promise<Row> {
  const ours = await startCaller(pair.ours, setting.environment);
  const bare = await startCaller(pair.bare, setting.environment);
  try {
    const rates = await inTurns(setting.quick ? 3 : 7, { ours: () => ours.rate(calls), bare: () => bare.rate(calls) });
    const [mine, theirs] = [median(rates.ours), median(rates.bare)];
    const work = calls.wait === 0 ? "a tool that does nothing" : `a tool that takes ${calls.wait} ms`;
    return {
      name: `${name}, ${work}: time of a call`,
      ours: 1_000 / mine,
      bare: 1_000 / theirs,
      unit: "ms",
      value: theirs / mine,
      valueUnit: "×",
      goal: GOAL,
      note: `${calls.flight} in flight: ${Math.round(mine)} calls/s, the bare SDK client ${Math.round(theirs)}`,
    };
  } finally {
    ours.close();
    bare.close();
  }
}

export const gateway: Measurement = {
  name: "gateway",
  async run({ quick }) {
    const { url: http, child } = await startHttpServer();
    const script = here("./programs/mcp-server.ts");
    const config = {
      mcpServers: { local: { command: process.execPath, args: [script] }, remote: { url: `${http}/mcp` } },
    };
    const place = makePlace(JSON.stringify(config));
    const served = await startRotunda(place);
    try {
      const setting: Setting = { http, gateway: served, environment: place.environment, quick };
      const through = { hub: false, url: `${served.url}/mcp/hub`, token: served.token };
      const direct = { hub: false, url: `${http}/mcp`, tool: "one" };
      const stdio = { hub: false, tool: "one" };
      const idle = { count: quick ? 1_000 : 3_000, flight: 64, wait: 0 };
      const busy = { count: quick ? 400 : 800, flight: 16, wait: 50 };
      const rows: Row[] = [];
      for (const calls of [idle, busy]) {
        const add = async (name: string, pair: { ours: object; bare: object }) =>
          void rows.push(await compare(setting, name, pair, calls));
        await add("hub to a stdio server", { ours: { ...stdio, hub: true }, bare: stdio });
        await add("hub to an HTTP server", { ours: { ...direct, hub: true }, bare: direct });
        await add("hub and gateway to a stdio server", { ours: { ...through, tool: "local__one" }, bare: stdio });
        await add("hub and gateway to an HTTP server", { ours: { ...through, tool: "remote__one" }, bare: direct });
      }
      return rows;
    } finally {
      await served.close();
      child.kill();
      place.remove();
    }
  },
};
