import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";
import { type Reading, readStream, type Server, startBackground, startServer, type WireEvent } from "./process.ts";

const pieces = Array.from({ length: 290 }, (_, index) => `word${index} `);
const whole = pieces.join("");

async function endpoint(delay: number) {
  const upstream = await startUpstream([{ text: pieces, delay }]);
  later(() => upstream.close());
  return upstream;
}

const stream = (id: string, after?: number) =>
  `/v1/responses/${id}?stream=true${after === undefined ? "" : `&starting_after=${after}`}`;

function numbersOf(events: readonly WireEvent[]): number[] {
  return events.map((event) => event.sequence_number);
}

const counted = (count: number) => Array.from({ length: count }, (_, index) => index);

test("cut at every event of a run of 300 while it runs: the parts put together are the whole", async () => {
  const upstream = await endpoint(8);
  const server = await startServer(temporaryFolder(), upstream.url);
  const id = await startBackground(server, "Tell me");
  const uncut = readStream(server, stream(id));
  const cut = async (after: number): Promise<WireEvent[]> => {
    const first = await readStream(server, stream(id), after);
    const last = first.events.at(-1)?.sequence_number;
    const second = await readStream(server, stream(id, last));
    expect(second.done).toBe(true);
    return [...first.events, ...second.events];
  };
  const parts = Promise.all(counted(300).map((index) => cut(index + 1)));
  const { events, done } = await uncut;
  expect(done).toBe(true);
  expect(events.length).toBeGreaterThanOrEqual(298);
  expect(numbersOf(events)).toEqual(counted(events.length));
  for (const part of await parts) expect(part).toEqual(events);
}, 60_000);

/** Reads on over as many connections and servers as it takes. */
async function readOverRestarts(
  first: Server,
  id: string,
  restartAt: number,
  restart: () => Promise<Server>,
): Promise<{ events: WireEvent[]; server: Server }> {
  let restarted: Promise<Server> | undefined;
  const events: WireEvent[] = [];
  let reading: Reading = await readStream(first, stream(id), Number.POSITIVE_INFINITY, (event) => {
    if (event.sequence_number >= restartAt) restarted ??= restart();
  });
  events.push(...reading.events);
  const server = await (restarted as unknown as Promise<Server>);
  while (!reading.done) {
    reading = await readStream(server, stream(id, events.at(-1)?.sequence_number));
    events.push(...reading.events);
  }
  return { events, server };
}

test.each([
  ["SIGKILL", 25],
  ["SIGTERM", 60],
] as const)(
  "%s in the middle: no gap, the cut item ends incomplete, the answer is whole",
  async (signal, delay) => {
    const upstream = await endpoint(delay);
    const folder = temporaryFolder();
    const server = await startServer(folder, upstream.url);
    const id = await startBackground(server, "Tell me");
    let exit: number | string = "";
    const { events, server: second } = await readOverRestarts(server, id, 60, async () => {
      exit = await server.stop(signal);
      return startServer(folder, upstream.url);
    });
    expect(exit).toBe(signal === "SIGTERM" ? 0 : "SIGKILL");
    expect(numbersOf(events)).toEqual(counted(events.length));
    const fromStart = await readStream(second, stream(id));
    expect(events).toEqual(fromStart.events);
    const items = events.filter((event) => event.type === "response.output_item.done") as unknown as {
      item: { status: string; content: { text: string }[] };
    }[];
    expect(items.map(({ item }) => item.status)).toEqual(["incomplete", "completed"]);
    const [cut, complete] = items.map(({ item }) => item.content[0]?.text ?? "");
    expect(whole.startsWith(cut ?? "?")).toBe(true);
    expect(complete).toBe(whole);
    expect(events.at(-1)).toMatchObject({ type: "response.completed", response: { status: "completed" } });
  },
  90_000,
);

test("a foreground response that a crash cuts ends incomplete, and can be resumed", async () => {
  const upstream = await endpoint(20);
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url);
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "test-model", input: "Tell me", stream: true });
  const answer = await fetch(`${server.url}/v1/responses`, { method: "POST", headers, body });
  const reader = answer.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  const [, id = ""] = /"id":"(resp_[^"]+)"/.exec(Buffer.from(value ?? []).toString()) ?? [];
  await new Promise((resolve) => setTimeout(resolve, 500));
  await server.stop("SIGKILL");
  await reader?.cancel().catch(() => undefined);
  const second = await startServer(folder, upstream.url);
  const get = async (path: string, init: RequestInit = {}) =>
    (await (await fetch(`${second.url}${path}`, { headers, ...init })).json()) as {
      id: string;
      status: string;
      incomplete_details: { reason: string } | null;
      previous_response_id: string | null;
    };
  let cut = await get(`/v1/responses/${id}`);
  for (let tries = 0; cut.status === "in_progress" && tries < 100; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    cut = await get(`/v1/responses/${id}`);
  }
  expect(cut).toMatchObject({ status: "incomplete", incomplete_details: { reason: "interrupted" } });
  const resumed = await get(`/v1/responses/${id}/resume`, { method: "POST" });
  expect(resumed.previous_response_id).toBe(id);
  const { events } = await readStream(second, stream(resumed.id));
  expect(events.at(-1)).toMatchObject({ type: "response.completed" });
}, 60_000);
