/**
 * `rotunda serve` under load, against a bare relay that hands the same requests on and keeps nothing.
 *
 * Invariant: server, relay, endpoint and client are processes of their own, and the built program is what is measured.
 */
import { inTurns, type Measurement, median, medianDifference, type Row, type Settings } from "./measurement.ts";
import { makePlace, modelConfig, type Place, runNode } from "./processes.ts";
import type { Load, Loaded } from "./programs/messages.ts";
import {
  type Client,
  cpuOf,
  peakOf,
  type ServerProcess,
  startClient,
  startEndpoint,
  startRelay,
  startRotunda,
} from "./servers.ts";

const PROFILE = `profile: bench
profiles:
  bench: {instructions: Answer., tools: []}
`;

interface Setting extends Settings {
  endpoint: ServerProcess;
  relay: ServerProcess;
  ours: ServerProcess;
  client: Client;
  place: Place;
}

function measurement(name: string, measure: (setting: Setting) => Promise<Row[]>): Measurement {
  return {
    name,
    async run(settings) {
      const endpoint = await startEndpoint();
      const place = makePlace(modelConfig(`${endpoint.url}/v1`, PROFILE));
      const relay = await startRelay(endpoint.url);
      const ours = await startRotunda(place);
      const client = await startClient();
      try {
        return await measure({ ...settings, endpoint, relay, ours, client, place });
      } finally {
        client.close();
        await Promise.all([endpoint.close(), relay.close(), ours.close()]);
        place.remove();
      }
    },
  };
}

const chat = (content: string, stream = false) => ({
  model: "bench",
  messages: [{ role: "user", content }],
  ...(stream && { stream }),
});

interface Work {
  body: object;
  path?: string;
  count: number;
  flight: number;
}

async function load(client: Client, { url, token }: ServerProcess, work: Work): Promise<Loaded> {
  const { body, path = "/v1/chat/completions", count, flight } = work;
  const wish: Load = { url, token, path, body, count, flight };
  const loaded = await client.run(wish);
  if (loaded.failures > 0) throw new Error(`${loaded.failures} of ${count} requests to ${path} failed`);
  return loaded;
}

export const turns = measurement("turns", async ({ client, relay, ours, quick }) => {
  const count = quick ? 1_000 : 4_000;
  const cpu = (server: ServerProcess) => async () => {
    const before = cpuOf(server.pid);
    await load(client, server, { body: chat("wait=0"), count, flight: 64 });
    return (cpuOf(server.pid) - before) / count;
  };
  const tasks = { ours: cpu(ours), bare: cpu(relay) };
  const values = await inTurns(quick ? 3 : 7, tasks);
  const [mine, theirs] = [median(values.ours), median(values.bare)];
  const alone = (server: ServerProcess) => async () =>
    median((await load(client, server, { body: chat("wait=0"), count: 200, flight: 1 })).times);
  const single = await inTurns(quick ? 3 : 9, { ours: alone(ours), bare: alone(relay) });
  return [
    {
      name: "a chat turn over HTTP, 64 in flight: CPU of the server",
      ours: mine,
      bare: theirs,
      unit: "µs",
      value: mine / theirs,
      valueUnit: "×",
      goal: 4,
      note: "against the bare relay; every turn durable and resumable",
    },
    {
      name: "a chat turn over HTTP, one in flight: latency added to the bare relay, p50",
      ours: median(single.ours),
      bare: median(single.bare),
      unit: "ms",
      value: medianDifference(single.ours, single.bare),
      valueUnit: "ms",
      goal: 2.5,
      note: "the fsyncs included",
    },
  ];
});

export const waiting = measurement("waiting", async ({ client, endpoint, ours, quick }) => {
  const work = { body: chat("wait=50"), count: quick ? 320 : 960, flight: 16 };
  const wall = (server: ServerProcess) => async () => (await load(client, server, work)).wall / work.count;
  const values = await inTurns(quick ? 3 : 5, { ours: wall(ours), bare: wall(endpoint) });
  const [mine, theirs] = [median(values.ours), median(values.bare)];
  return [
    {
      name: "16 chats in flight, an endpoint that takes 50 ms: time for each, against asking it directly",
      ours: mine,
      bare: theirs,
      unit: "ms",
      value: mine / theirs,
      valueUnit: "×",
      goal: 1.03,
      note: `${((theirs / mine) * 100).toFixed(1)} % of the endpoint's own rate, no failure`,
    },
  ];
});

export const streams = measurement("streams", async ({ client, relay, ours, quick }) => {
  const flight = quick ? 200 : 1_000;
  const ask = async (server: ServerProcess, path: string, body: object) => {
    const before = cpuOf(server.pid);
    const loaded = await load(client, server, { body, path, count: flight, flight });
    const cpu = cpuOf(server.pid) - before;
    return { ...loaded, cpu, perToken: cpu / loaded.tokens, cores: cpu / 1_000 / loaded.wall };
  };
  const completions = (server: ServerProcess) => ask(server, "/v1/chat/completions", chat("tokens", true));
  // The first round warms both.
  await completions(relay);
  await completions(ours);
  const bare = await completions(relay);
  const mine = await completions(ours);
  const responses = await ask(ours, "/v1/responses", { model: "bench", input: "tokens", stream: true });
  const what = `${flight.toLocaleString("en")} streams of 20 tokens/s`;
  const note = (text: string) => `${text}; chat completions, persisted and resumable`;
  return [
    {
      name: `${what}: CPU of a token`,
      ours: mine.perToken,
      bare: bare.perToken,
      unit: "µs",
      value: mine.perToken / bare.perToken,
      valueUnit: "×",
      goal: 2,
      note: note("against the bare relay of bytes"),
    },
    {
      name: `${what}: time until all have ended`,
      ours: mine.wall,
      bare: bare.wall,
      unit: "ms",
      value: mine.wall / bare.wall,
      valueUnit: "×",
      goal: 1.1,
      note: note(`${mine.gaps + responses.gaps} gaps in ${mine.tokens + responses.tokens} tokens`),
    },
    {
      name: `${what} through /v1/responses: cores`,
      ours: responses.cpu / 1_000,
      bare: null,
      unit: "ms",
      value: responses.cores,
      valueUnit: "×",
      goal: 1.2,
      note: `of one core; ${(responses.wall / 1_000).toFixed(1)} s for 10 s of tokens`,
    },
    {
      name: `${what}: memory of the server at most`,
      ours: peakOf(ours.pid),
      bare: peakOf(relay.pid),
      unit: "MB",
      value: peakOf(ours.pid),
      valueUnit: "MB",
      goal: 250,
    },
  ];
});

export const stored = measurement("stored", async ({ client, ours, quick }) => {
  const body = {
    title: "Old talk",
    messages: [
      { role: "user", content: "What was it?" },
      { role: "assistant", content: "This." },
    ],
  };
  const fill = (count: number) => client.run({ ...ours, path: "/v1/conversations", body, count, flight: 32 });
  const cost = async () => {
    const values: number[] = [];
    for (let round = 0; round < 5; round++) {
      const before = cpuOf(ours.pid);
      await load(client, ours, { body: chat("wait=0"), count: 1_000, flight: 16 });
      values.push((cpuOf(ours.pid) - before) / 1_000);
    }
    return median(values);
  };
  await fill(10);
  await cost();
  const few = await cost();
  const count = quick ? 2_000 : 10_000;
  await fill(count);
  const many = await cost();
  return [
    {
      name: `a chat turn with ${count.toLocaleString("en")} stored conversations, against 10: CPU`,
      ours: many,
      bare: few,
      unit: "µs",
      value: many / few,
      valueUnit: "×",
      goal: 1.1,
      note: "both ours",
    },
  ];
});

export const ready: Measurement = {
  name: "ready",
  async run({ quick }) {
    const place = makePlace(modelConfig("http://127.0.0.1:9/v1", PROFILE));
    try {
      const start = async () => {
        const began = performance.now();
        const server = await startRotunda(place);
        const answer = await fetch(`${server.url}/healthz`);
        const took = performance.now() - began;
        await answer.text();
        await server.close();
        return took;
      };
      const values = await inTurns(quick ? 5 : 15, { ours: start, bare: () => runNode(["-e", "0"], place) });
      const [mine, theirs] = [median(values.ours), median(values.bare)];
      return [
        {
          name: "`rotunda serve`, cold, until it has answered its first request, against `node -e 0`",
          ours: mine,
          bare: theirs,
          unit: "ms",
          value: mine / theirs,
          valueUnit: "×",
          goal: 3,
        },
      ];
    } finally {
      place.remove();
    }
  },
};
