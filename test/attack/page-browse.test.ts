/** Attacks on what the page asks for: the tree, everything said, what was used, news; by their queries and by their size. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { describe, expect, test } from "vitest";
import { newId } from "../../src/util/ids.ts";
import { openPage } from "../http/page-client.ts";
import { type Served, serve } from "../http/served.ts";
import { later } from "../support.ts";

const reads = ["responses:read", "responses:write"] as const;

async function get(served: Served, path: string, token?: string): Promise<{ status: number; body: string }> {
  const answer = await served.fetch(path, token === undefined ? {} : { token });
  return { status: answer.status, body: await answer.text() };
}

describe("what is somebody else's", () => {
  test("K7 W3 W4 tree, search, usage, runs and conversations tell neither ids, titles nor counts of it", async () => {
    const served = await serve(() => ({ text: "the zebra answers" }));
    const alice = await served.newToken({ name: "alice", scopes: [...reads] });
    const bob = await served.newToken({ name: "bob", scopes: [...reads] });
    const made = await served.fetch("/v1/conversations", { token: alice, json: {} });
    const { id: conversation } = (await made.json()) as { id: string };
    const hers = await served.respond({ model: "test-model", input: "about a zebra", conversation }, alice);
    const below = await served.respond({ model: "test-model", input: "more", previous_response_id: hers.id }, alice);
    const ids = [conversation, hers.id, below.id];
    const unknown = newId("resp");
    const paths = [
      "/v1/search?q=zebra&all=true",
      "/v1/search?q=zebra&before=999999999999999.1.0",
      "/v1/usage",
      "/v1/responses?limit=100",
      "/v1/conversations",
      "/v1/tool-approvals",
      "/v1/usage?by=profile&days=400",
    ];
    for (const path of paths) {
      const { status, body } = await get(served, path, bob);
      expect([path, status]).toEqual([path, 200]);
      for (const secret of ["zebra", ...ids, "test-model"])
        expect([path, body]).toEqual([path, expect.not.stringContaining(secret)]);
    }
    // An id that there is, and one that there is not, are answered by the same words.
    const shapes = [
      (id: string) => `/v1/tree?response=${id}`,
      (id: string) => `/v1/tree?response=${id}&limit=1`,
      (id: string) => `/v1/responses/${id}`,
      (id: string) => `/v1/responses/${id}/input_items`,
      (id: string) => `/v1/responses/${id}?stream=true`,
    ];
    for (const shape of shapes) {
      const [one, other] = [await get(served, shape(hers.id), bob), await get(served, shape(unknown), bob)];
      expect(one.status).toBe(404);
      expect(one.body.replaceAll(hers.id, "ID").replace(/req_\w+/g, "")).toBe(
        other.body.replaceAll(unknown, "ID").replace(/req_\w+/g, ""),
      );
    }
    const none = newId("conv");
    const tree = (id: string) => get(served, `/v1/tree?conversation=${id}`, bob);
    expect((await tree(conversation)).body.replaceAll(conversation, "ID")).toBe(
      (await tree(none)).body.replaceAll(none, "ID"),
    );
    // A cursor of her page leads him nowhere.
    const first = JSON.parse((await get(served, "/v1/search?q=zebra&limit=1", alice)).body) as { next: string };
    expect(JSON.parse((await get(served, `/v1/search?q=zebra&before=${first.next}`, bob)).body)).toMatchObject({
      data: [],
      next: null,
    });
  });
});

describe("hostile queries", () => {
  test("W3 signs of SQL, LIKE, FTS and regular expressions are letters of a word", async () => {
    const said = `100% of a_b ~tilde "quoted" 'single' back\\slash AND OR NOT NEAR( * ^col:x -minus ; DROP TABLE`;
    const served = await serve(() => ({ text: "ok" }));
    await served.respond({ model: "test-model", input: said });
    await served.respond({ model: "test-model", input: "nothing of that kind, axb 1000" });
    const count = async (q: string) => {
      const answer = await served.fetch(`/v1/search?q=${encodeURIComponent(q)}`);
      expect([q, answer.status]).toEqual([q, 200]);
      return ((await answer.json()) as { data: unknown[] }).data.length;
    };
    for (const word of [
      "100%",
      "a_b",
      "~tilde",
      '"quoted"',
      "'single'",
      "back\\slash",
      "NEAR(",
      "*",
      "^col:x",
      "-minus",
      ";",
    ]) {
      expect([word, await count(word)]).toEqual([word, 1]);
    }
    for (const word of ["%", "_", "~"]) expect([word, await count(word)]).toEqual([word, 1]);
    for (const word of [
      "%%%%",
      "a__b",
      "~~",
      "' OR 1=1 --",
      '" OR "',
      "(?:a+)+$",
      "\\",
      "\u0000",
      "a\u202eb",
      "$1",
      "{}",
      "\\u0000",
    ]) {
      expect(await count(word)).toBeLessThan(2);
    }
  });

  test("W3 W4 forged cursors, numbers and days are refused or find nothing", async () => {
    const served = await serve(() => ({ text: "word" }));
    const { id } = await served.respond({ model: "test-model", input: "word" });
    const bad = [
      "-1.0.0",
      "1.2.0",
      "1.0",
      "1.0.0.0",
      "x",
      "1e9.0.0",
      "1.0.0 OR 1",
      "0x1.0.0",
      "1.0.-1",
      "9".repeat(16),
      "٣.0.0",
      "1.0.0\n",
    ];
    for (const cursor of bad) {
      const { status } = await get(served, `/v1/search?q=word&before=${encodeURIComponent(cursor)}`);
      expect([cursor, status]).toEqual([cursor, 400]);
    }
    for (const cursor of ["0.0.0", "999999999999999.1.999999999"]) {
      expect((await get(served, `/v1/search?q=word&before=${cursor}`)).status).toBe(200);
    }
    for (const days of ["-1", "0", "401", "1.5", "NaN", "Infinity", "1e2", "0x10", "٣", "", "1 OR 1", "+1"]) {
      expect([days, (await get(served, `/v1/usage?days=${encodeURIComponent(days)}`)).status]).toEqual([days, 400]);
    }
    for (const by of ["", "day,", "__proto__", "constructor", "day,owner", "day;model", "toString"]) {
      expect([by, (await get(served, `/v1/usage?by=${by}`)).status]).toEqual([by, 400]);
    }
    expect((await get(served, "/v1/usage?by=day&by=day,model")).status).toBe(200);
    for (const part of [
      "response=",
      "response=%00",
      "response=..",
      `response=${id}&response=x`,
      "conversation=%27",
      `response=${"x".repeat(5_000)}`,
    ]) {
      expect([part, (await get(served, `/v1/tree?${part}`)).status < 500]).toEqual([part, true]);
    }
  });

  test("W4 what came with hostile dates and numbers spoils no sum", async () => {
    const served = await serve(() => ({
      text: "ok",
      usage: { prompt_tokens: 1e15, completion_tokens: -5, total_tokens: "x", cost: "1" } as never,
    }));
    await served.respond({ model: "test-model", input: "x" });
    const { status, body } = await get(served, "/v1/usage");
    expect(status).toBe(200);
    const { rows } = JSON.parse(body) as { rows: Record<string, unknown>[] };
    for (const name of ["input_tokens", "output_tokens", "cost", "responses"])
      expect(typeof rows[0]?.[name]).toBe("number");
    for (const name of ["input_tokens", "output_tokens", "cost"])
      expect(Number(rows[0]?.[name])).toBeGreaterThanOrEqual(0);
  });
});

describe("size", () => {
  /** The longest that nobody else was served, in milliseconds. */
  async function longest(work: () => Promise<void>): Promise<number> {
    const delay = monitorEventLoopDelay({ resolution: 5 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    delay.enable();
    await work();
    delay.disable();
    return delay.max / 1e6;
  }

  test("W3 a word that compares badly, in long texts, holds nobody up", { timeout: 60_000 }, async () => {
    const served = await serve(() => ({ text: "ok" }));
    const alice = await served.newToken({ name: "alice", scopes: [...reads] });
    const text = "a".repeat(900_000);
    for (let count = 0; count < 12; count++) await served.respond({ model: "test-model", input: text }, alice);
    const word = `${"a".repeat(199)}b`;
    const words = Array.from({ length: 8 }, () => word).join("+");
    const blocked = await longest(async () => {
      for (const q of [words, word]) expect((await get(served, `/v1/search?q=${q}`, alice)).status).toBe(200);
    });
    expect(blocked).toBeLessThan(700);
  });

  test("W3 W4 one response of very many long items is searched and drawn bit by bit", { timeout: 60_000 }, async () => {
    const served = await serve(() => ({ text: "ok" }));
    const items = Array.from({ length: 60 }, (_, at) => ({
      role: "user",
      content: `${at} ${"lorem ipsum ".repeat(25_000)}`,
    }));
    const { id } = await served.respond({ model: "test-model", input: items });
    const blocked = await longest(async () => {
      const found = await get(served, "/v1/search?q=lorem+%C3%A9");
      expect(JSON.parse(found.body)).toMatchObject({ data: [], next: null });
      expect((await get(served, `/v1/tree?response=${id}`)).status).toBe(200);
    });
    expect(blocked).toBeLessThan(700);
  });

  test("W7 hundreds of pages hear the news, readers that do not read cost nothing, and signing out ends a session's own", {
    timeout: 60_000,
  }, async () => {
    const served = await serve(() => ({ text: "ok" }));
    const page = await openPage(served);
    const stop = new AbortController();
    later(() => stop.abort());
    const opened = await Promise.all(
      Array.from({ length: 300 }, (_, at) => {
        const headers = { authorization: `Bearer ${served.token}` };
        const init = { headers, signal: stop.signal };
        return at === 0 ? page.fetch("/rotunda/news") : fetch(`${served.url}/rotunda/news`, init);
      }),
    );
    expect(opened.every(({ status }) => status === 200)).toBe(true);
    const began = performance.now();
    await served.respond({ model: "test-model", input: "hi" });
    const readers = opened.slice(1, 100).map(async ({ body }) => {
      const decoder = new TextDecoder();
      let text = "";
      for await (const part of body as unknown as AsyncIterable<Uint8Array>) {
        text += decoder.decode(part, { stream: true });
        if (text.includes("event: response")) return true;
      }
      return false;
    });
    expect(await Promise.all(readers)).not.toContain(false);
    expect(performance.now() - began).toBeLessThan(20_000);
    // A named token has no more of them than it may.
    const few = await served.newToken({ scopes: [...reads], limits: { streams: 2 } as never });
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++) {
      statuses.push((await served.fetch("/rotunda/news", { token: few, signal: stop.signal })).status);
    }
    expect(statuses).toEqual([200, 200, 429]);
    stop.abort();
    expect((await page.fetch("/rotunda/session", { method: "DELETE" })).status).toBe(204);
    await opened[0]?.text().catch(() => "");
  });
});
