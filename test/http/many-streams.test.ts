/** Many streams at once: their deltas share commits and rows, and no reader sees anything of that. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { startUpstream, type UpstreamRequest } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";
import { type Reading, readStream, type Server, startBackground, startServer, type WireEvent } from "./process.ts";

const COUNT = 30;

/** Each question is answered with words of its own. */
function words(question: string): string[] {
  return Array.from({ length: 60 }, (_, number) => `${question}.${number} `);
}

async function endpoint() {
  const upstream = await startUpstream(({ body }: UpstreamRequest) => {
    const [, question = ""] = /(question\d+)/.exec(JSON.stringify(body)) ?? [];
    return { text: words(question), delay: 25 };
  });
  later(() => upstream.close());
  return upstream;
}

function rowsInTail(folder: string): number {
  const database = new DatabaseSync(join(folder, "state", "rotunda.db"), { readOnly: true });
  try {
    return Number(database.prepare("SELECT count(*) AS count FROM tail").get()?.count);
  } finally {
    database.close();
  }
}

const path = (id: string, after?: number) =>
  `/v1/responses/${id}?stream=true${after === undefined ? "" : `&starting_after=${after}`}`;

function textOf(events: readonly WireEvent[]): string {
  return events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
}

const numbersOf = (events: readonly WireEvent[]) => events.map((event) => event.sequence_number);

/** Starts them all, and reads each from its start. */
async function startAll(server: Server): Promise<{ ids: string[]; readings: Promise<Reading>[] }> {
  const ids = await Promise.all(
    Array.from({ length: COUNT }, (_, number) => startBackground(server, `question${number}`)),
  );
  return { ids, readings: ids.map((id) => readStream(server, path(id))) };
}

test("30 streams: each is whole and its own, and is read again as it was told", async () => {
  const upstream = await endpoint();
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url);
  const { ids, readings } = await startAll(server);
  const [first = ""] = ids;
  await readStream(server, path(first), 40);
  expect(rowsInTail(folder)).toBeGreaterThan(0);
  for (const [number, reading] of (await Promise.all(readings)).entries()) {
    expect(reading.done).toBe(true);
    expect(numbersOf(reading.events)).toEqual(reading.events.map((_, index) => index));
    expect(textOf(reading.events)).toBe(words(`question${number}`).join(""));
    expect((await readStream(server, path(ids[number] ?? ""))).events).toEqual(reading.events);
  }
  await server.stop("SIGTERM");
  expect(rowsInTail(folder)).toBe(0);
}, 60_000);

test("killed in the midst of 30 streams: what was told stands, without a gap, and every answer becomes whole", async () => {
  const upstream = await endpoint();
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url);
  const { ids, readings } = await startAll(server);
  await readStream(server, path(ids[0] ?? ""), 30);
  expect(rowsInTail(folder)).toBeGreaterThan(0);
  await server.stop("SIGKILL");
  const cut = await Promise.all(readings);
  const second = await startServer(folder, upstream.url);
  const all = await Promise.all(
    cut.map(async ({ events, done }, number) => {
      const last = events.at(-1)?.sequence_number;
      const rest = done ? [] : (await readStream(second, path(ids[number] ?? "", last))).events;
      return [...events, ...rest];
    }),
  );
  for (const [number, events] of all.entries()) {
    expect(numbersOf(events)).toEqual(events.map((_, index) => index));
    expect((await readStream(second, path(ids[number] ?? ""))).events).toEqual(events);
    // The cut message has exactly what was told of it; the next one is the whole answer.
    const whole = words(`question${number}`).join("");
    const items = events.filter(({ type }) => type === "response.output_item.done") as unknown as {
      item: { status: string; content: { text: string }[] };
    }[];
    const texts = items.map(({ item }) => item.content[0]?.text ?? "");
    expect(texts.at(-1)).toBe(whole);
    expect(texts.join("")).toBe(textOf(events));
    for (const text of texts) expect(whole.startsWith(text)).toBe(true);
  }
  await second.stop("SIGTERM");
  expect(rowsInTail(folder)).toBe(0);
}, 90_000);
