/** A model's stream as its readers see it: cancelling, reading slowly, leaving early, many at once. */
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createChatCompletionsModel } from "../../src/models/chat-completions.ts";
import { HttpClient } from "../../src/models/http.ts";
import { realTimes } from "../../src/models/retry.ts";
import { ask, bench, closeBenches, request } from "./helpers.ts";

afterEach(closeBenches);

describe("cancelling", () => {
  const cases = [
    ["before the headers", { silent: "hang" as const }],
    ["within the stream", { text: ["some"], break: "hang" as const }],
    ["within a body that reports an error", { status: 500, write: ["{"], break: "hang" as const }],
  ] as const;

  it.each(cases)("%s: the socket is closed and the error is cancelled", async (_, step) => {
    const control = new AbortController();
    const { model, upstream } = await bench((asked) => {
      setTimeout(() => control.abort(), 50);
      expect(asked.body.stream).toBe(true);
      return step;
    });
    const { error } = await ask(model, request(), control.signal);
    expect(error?.code).toBe("cancelled");
    expect(await upstream.requests[0]?.gone).toBe(true);
  });

  it("in the wait before a retry: nothing is asked again", async () => {
    const control = new AbortController();
    const { model, upstream } = await bench(
      [{ status: 429, headers: { "retry-after": "30" }, body: "x" }],
      {},
      { times: realTimes },
    );
    const asked = request(undefined, { onRetry: () => setTimeout(() => control.abort(), 10) });
    const begun = Date.now();
    expect((await ask(model, asked, control.signal)).error?.code).toBe("cancelled");
    expect(Date.now() - begun).toBeLessThan(25_000);
    expect(upstream.requests).toHaveLength(1);
  });

  it("before it began: nothing is asked at all", async () => {
    const { model, upstream } = await bench([{ text: "x" }]);
    expect((await ask(model, request(), AbortSignal.abort())).error?.code).toBe("cancelled");
    expect(upstream.requests).toHaveLength(0);
  });

  it("while all connections are taken: the request is never sent", async () => {
    const { upstream } = await bench([{ silent: "hang" }]);
    const http = new HttpClient({ connections: 1 });
    const model = createChatCompletionsModel(
      { id: "m", baseUrl: upstream.url, model: "m", origin: "config" },
      { http },
    );
    const [first, second] = [new AbortController(), new AbortController()];
    const one = ask(model, request(), first.signal);
    const two = ask(model, request(), second.signal);
    while (upstream.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    second.abort();
    expect((await two).error?.code).toBe("cancelled");
    first.abort();
    await one;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(upstream.requests).toHaveLength(1);
    await http.close();
  });

  it("a reader that leaves closes the socket, also in the wait before a retry", async () => {
    const { model, upstream } = await bench([{ text: ["a", "b"], delay: 5, break: "hang" }]);
    for await (const event of model.stream(request(), new AbortController().signal)) if (event.type === "text") break;
    expect(await upstream.requests[0]?.gone).toBe(true);
    const limited = await bench(
      [{ status: 429, headers: { "retry-after": "30" }, body: "x" }],
      {},
      { times: realTimes },
    );
    const stream = limited.model.stream(request(), new AbortController().signal)[Symbol.asyncIterator]();
    const next = stream.next();
    while (limited.upstream.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await stream.return?.();
    expect(await next).toEqual({ value: undefined, done: true });
    expect(limited.upstream.requests).toHaveLength(1);
  });
});

describe("time", () => {
  it("the whole call ends by its deadline, and by the total timeout", async () => {
    const slow = { text: Array.from({ length: 1_000 }, () => "tick "), delay: 20 };
    const { model } = await bench([slow]);
    const late = await ask(model, request(undefined, { deadline: Date.now() + 300 }));
    expect(late.error).toMatchObject({ code: "upstream_timeout", partial: true });
    const total = await bench([slow], { timeouts: { total: 0.3 } });
    expect((await ask(total.model)).error).toMatchObject({ code: "upstream_timeout", partial: true });
  });

  it("an endpoint that holds the connection open after [DONE] holds nobody up", async () => {
    const write = [
      'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    ];
    const { model, upstream } = await bench([{ write, break: "hang" }]);
    expect((await ask(model)).finish?.reason).toBe("stop");
    expect(await upstream.requests[0]?.gone).toBe(true);
  });

  it("an endpoint that says nothing after the finish reason is not waited for until the idle timeout", async () => {
    const write = ['data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'];
    const { model } = await bench([{ write, break: "hang" }], { timeouts: { idle: 3_000 } });
    expect((await ask(model)).finish?.reason).toBe("stop");
  });
});

describe("reading", () => {
  it("connections are used again, by one call after the other", async () => {
    const { model, upstream } = await bench([{ text: "x" }]);
    for (let number = 0; number < 20; number++) {
      await ask(model);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(new Set(upstream.requests.map(({ connection }) => connection)).size).toBe(1);
  });

  it("64 calls at once each get their own answer", async () => {
    const { model, upstream } = await bench((asked) => {
      const [, last] = asked.body.messages as { content: string }[];
      return { text: [...(last?.content ?? "")], delay: 1 };
    });
    const texts = Array.from({ length: 64 }, (_, number) => `answer number ${number}`);
    const answers = await Promise.all(
      texts.map((text) => ask(model, request([{ responseId: "r", ended: false, entries: [userEntry(text)] }]))),
    );
    expect(answers.map(({ text }) => text)).toEqual(texts);
    expect(upstream.refusals).toEqual([]);
  });

  it("a slow reader stops the endpoint instead of filling the memory", async () => {
    const text = Array.from({ length: 24 }, () => "z".repeat(1024 * 1024));
    const { model, upstream } = await bench([{ text }]);
    let length = 0;
    let pausedOnce = false;
    for await (const event of model.stream(request(), new AbortController().signal)) {
      if (event.type === "text") length += event.delta.length;
      if (pausedOnce) continue;
      pausedOnce = true;
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(await Promise.race([upstream.requests[0]?.gone, "still sending"])).toBe("still sending");
    }
    expect(length).toBe(24 * 1024 * 1024);
  });

  it("an answer as one JSON body is an answer", async () => {
    const { model } = await bench([
      { json: true, reasoning: "hm", text: "whole", calls: [{ name: "a", arguments: { n: 1 } }] },
    ]);
    const { text, reasoning, calls, finish } = await ask(model);
    expect([text, reasoning, calls[0]?.arguments]).toEqual(["whole", "hm", '{"n":1}']);
    expect(finish).toMatchObject({
      reason: "tool_calls",
      raw: { reasoning_content: "hm" },
      usage: { input_tokens: 10 },
    });
  });

  it("usage with cached and reasoning tokens and its cost", async () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 20,
      total_tokens: 120,
      prompt_tokens_details: { cached_tokens: 64 },
      completion_tokens_details: { reasoning_tokens: 12 },
      cost: 0.0042,
    };
    const { model } = await bench([
      { text: "x", usage },
      { text: "x", usage: { prompt_tokens: 7, prompt_cache_hit_tokens: 3 } },
      { text: "x", usage: null },
    ]);
    expect((await ask(model)).finish?.usage).toEqual({
      input_tokens: 100,
      output_tokens: 20,
      total_tokens: 120,
      input_tokens_details: { cached_tokens: 64 },
      output_tokens_details: { reasoning_tokens: 12 },
      cost: 0.0042,
    });
    expect((await ask(model)).finish?.usage).toMatchObject({
      total_tokens: 7,
      input_tokens_details: { cached_tokens: 3 },
    });
    expect((await ask(model)).finish).not.toHaveProperty("usage");
  });

  it("B10 calls of every odd form: no id, one id twice, all with index 0, arguments as an object", async () => {
    const event = (...calls: object[]) => JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: calls } }] });
    const call = (more: object, name: string, given: unknown) => ({ ...more, function: { name, arguments: given } });
    const events = [
      event(call({ index: 0, id: "x" }, "a", "{}"), call({ index: 0, id: "y" }, "b", "{")),
      event({ index: 0, function: { arguments: "}" } }),
      event(call({ index: 5 }, "c", { n: 1 })),
      event(call({ id: "x" }, "", ""), call({ index: 6, id: "x" }, "d", "{}")),
    ];
    const { model } = await bench([{ events, finish: "tool_calls" }]);
    const { calls } = await ask(model);
    expect(calls.map(({ name, arguments: given }) => [name, given])).toEqual([
      ["a", "{}"],
      ["b", "{}"],
      ["c", '{"n":1}'],
      ["d", "{}"],
    ]);
    expect(calls.slice(0, 2).map(({ callId }) => callId)).toEqual(["x", "y"]);
    expect(new Set(calls.map(({ callId }) => callId)).size).toBe(4);
    for (const { callId } of calls) expect(callId).not.toBe("");
  });
});

describe("proxies", () => {
  it("a proxy of the environment is used for other hosts, and not for this machine or NO_PROXY", async () => {
    const tunnels: string[] = [];
    const proxy = createServer((incoming, response) => {
      tunnels.push(incoming.url ?? "");
      response.writeHead(502).end("blocked by the test proxy");
    });
    proxy.on("connect", (incoming, socket) => {
      tunnels.push(incoming.url ?? "");
      const to = connect(Number(new URL(upstream.url).port), "127.0.0.1");
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      to.on("error", () => socket.destroy())
        .pipe(socket)
        .on("error", () => to.destroy())
        .pipe(to);
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const HTTP_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const { upstream } = await bench([{ text: "through" }]);
    const http = new HttpClient({ environment: { HTTP_PROXY, NO_PROXY: "direct.invalid" } });
    const make = (host: string) =>
      createChatCompletionsModel(
        { id: "m", baseUrl: upstream.url.replace("127.0.0.1", host), model: "m", origin: "config", retries: 0 },
        { http },
      );
    await ask(make("model.invalid"));
    expect(tunnels.join()).toContain("model.invalid");
    expect((await ask(make("127.0.0.1"))).text).toBe("through");
    expect((await ask(make("direct.invalid"))).error?.code).toBe("upstream_unreachable");
    expect(tunnels).toHaveLength(1);
    await http.close();
    proxy.close();
  });
});

function userEntry(text: string) {
  const content = [{ type: "input_text" as const, text }];
  return {
    side: "input" as const,
    position: 0,
    turn: 0,
    meta: {},
    item: { type: "message" as const, id: "msg_1", role: "user" as const, status: "completed" as const, content },
  };
}
