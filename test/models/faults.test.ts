/** The rows of the fault list about refusals and failures that are safe to repeat, each against a real socket. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { createChatCompletionsModel } from "../../src/models/chat-completions.ts";
import { HttpClient } from "../../src/models/http.ts";
import type { ModelConfig } from "../../src/types/config.ts";
import { ask, bench, closeBenches, quickTimes, request } from "./helpers.ts";

afterEach(closeBenches);

const key = "sk-secret-0123456789";
const errorBody = (message: string, code: string | null = null) => ({
  error: { message, type: "invalid_request_error", param: null, code },
});
const limited = (headers: Record<string, string>) => ({
  status: 429,
  headers,
  body: errorBody("slow down", "rate_limit_exceeded"),
});
const ok = { text: "fine" };

describe("refusals", () => {
  it("U1 400: no retry, the endpoint's reason, no key", async () => {
    const { model, upstream } = await bench([{ status: 400, body: errorBody(`bad thing with ${key}`) }], {
      apiKey: key,
    });
    const { error, finish } = await ask(model);
    expect(error).toMatchObject({ code: "upstream_bad_request", status: 400, partial: false });
    expect(error?.message).toContain("bad thing with ***");
    expect(error?.message).toContain(new URL(upstream.url).host);
    expect(error?.message).toContain("test-model");
    expect(error?.remedy).toBeTruthy();
    expect(finish).toBeUndefined();
    expect(upstream.requests).toHaveLength(1);
  });

  it.each([
    [400, errorBody("This model's maximum context length is 8192 tokens", "context_length_exceeded")],
    [400, errorBody("prompt is too long: 213462 tokens > 200000 maximum")],
    [
      400,
      {
        error: {
          code: 400,
          message: "the request exceeds the available context size",
          type: "exceed_context_size_error",
        },
      },
    ],
    [
      400,
      [
        {
          error: {
            code: 400,
            message: "The input token count (1200000) exceeds the maximum number of tokens allowed",
            status: "INVALID_ARGUMENT",
          },
        },
      ],
    ],
    [422, { detail: "Input is too long for requested model." }],
  ])("U3 context length by %s %o", async (status, body) => {
    const { model } = await bench([
      { status, body: JSON.stringify(body), headers: { "content-type": "application/json" } },
    ]);
    expect((await ask(model)).error).toMatchObject({ code: "context_length_exceeded", status });
  });

  it.each([401, 403])("U4 %s: no retry, upstream_auth, the key is in no message", async (status) => {
    const config = { apiKey: key, headers: { "x-api-key": "other-secret-value" } };
    const { model, upstream } = await bench(
      [{ status, body: errorBody(`Incorrect API key: ${key}, other-secret-value`) }],
      config,
    );
    const { error } = await ask(model);
    expect(error).toMatchObject({ code: "upstream_auth", status });
    expect(`${error?.message}${error?.remedy}${error?.stack}`).not.toMatch(/0123456789|other-secret/);
    expect(upstream.requests).toHaveLength(1);
  });

  it("U5 404: no retry, names the model and the base URL", async () => {
    const { model, upstream } = await bench([{ status: 404, body: errorBody("no such model") }]);
    const { error } = await ask(model);
    expect(error?.code).toBe("upstream_model_not_found");
    expect(error?.message).toContain("test-model");
    expect(error?.remedy).toContain(upstream.url);
    expect(upstream.requests).toHaveLength(1);
  });

  it("U8 413: no retry, as too long a context", async () => {
    const { model, upstream } = await bench([{ status: 413, body: "<html>Request Entity Too Large</html>" }]);
    expect((await ask(model)).error).toMatchObject({ code: "context_length_exceeded", status: 413 });
    expect(upstream.requests).toHaveLength(1);
  });

  it("a redirect is not followed and says where it leads", async () => {
    const { model, upstream } = await bench([{ status: 307, headers: { location: "http://169.254.169.254/" } }]);
    const { error } = await ask(model);
    expect(error?.code).toBe("upstream_protocol");
    expect(error?.message).toContain("169.254.169.254");
    expect(upstream.requests).toHaveLength(1);
  });
});

describe("U6 U7 failures that are safe to repeat", () => {
  it.each([
    ["U6", 408],
    ["U7", 409],
    ["U10", 429],
    ["U11", 500],
    ["U11", 502],
    ["U11", 503],
    ["U11", 529],
  ])("%s %s: repeated, told, and then fine", async (_, status) => {
    const told: string[] = [];
    const { model, upstream } = await bench([{ status, body: errorBody("not now") }, { status, body: "x" }, ok]);
    const { text, error } = await ask(model, request(undefined, { onRetry: (line) => told.push(line) }));
    expect(error).toBeUndefined();
    expect(text).toBe("fine");
    expect(upstream.requests).toHaveLength(3);
    expect(told).toHaveLength(2);
    expect(told[0]).toContain(String(status));
  });

  it("U11 gives up after the configured number of retries", async () => {
    const { model, upstream } = await bench([{ status: 500, body: "boom" }], { retries: 2 });
    expect((await ask(model)).error).toMatchObject({ code: "upstream_failed", status: 500 });
    expect(upstream.requests).toHaveLength(3);
  });

  it("U9 retry-after in seconds, as a date and in milliseconds is waited out exactly", async () => {
    const times = { ...quickTimes(), now: () => Date.UTC(2026, 10, 1, 12, 0, 0) };
    const script = [
      limited({ "retry-after": "7" }),
      limited({ "retry-after": "Sun, 01 Nov 2026 12:00:11 GMT" }),
      limited({ "retry-after-ms": "1234", "retry-after": "99" }),
      ok,
    ];
    const { model } = await bench(script, {}, { times });
    expect((await ask(model)).text).toBe("fine");
    expect(times.waits).toEqual([7_000, 11_000, 1_234]);
  });

  it("U9 a wait beyond the deadline fails at once and says so", async () => {
    const times = quickTimes();
    const { model, upstream } = await bench([limited({ "retry-after": "120" })], {}, { times });
    const { error } = await ask(model, request(undefined, { deadline: Date.now() + 20_000 }));
    expect(error?.code).toBe("upstream_rate_limited");
    expect(error?.message).toMatch(/asks to wait 120 s, which is beyond the deadline/);
    expect(times.waits).toEqual([]);
    expect(upstream.requests).toHaveLength(1);
  });

  it("U9 one limited model holds up no other", async () => {
    const script = ({ body }: { body: { model?: unknown } }) =>
      body.model === "slow" ? limited({ "retry-after": "60" }) : ok;
    const { upstream, http } = await bench(script as never);
    const make = (model: string) =>
      createChatCompletionsModel({ id: model, baseUrl: upstream.url, model, origin: "config" }, { http });
    const control = new AbortController();
    const waiting = ask(make("slow"), request(), control.signal);
    expect((await ask(make("quick"))).text).toBe("fine");
    control.abort();
    expect((await waiting).error?.code).toBe("cancelled");
  });

  it("U10 an account without credit is not asked again", async () => {
    const { model, upstream } = await bench([
      { status: 429, body: errorBody("You exceeded your current quota", "insufficient_quota") },
    ]);
    const { error } = await ask(model);
    expect(error?.code).toBe("upstream_rate_limited");
    expect(error?.remedy).toMatch(/billing/);
    expect(upstream.requests).toHaveLength(1);
  });

  it("x-should-retry is obeyed", async () => {
    const no = await bench([{ status: 500, headers: { "x-should-retry": "false" }, body: "x" }]);
    await ask(no.model);
    expect(no.upstream.requests).toHaveLength(1);
    const yes = await bench([{ status: 400, headers: { "x-should-retry": "true" }, body: "x" }, ok]);
    expect((await ask(yes.model)).text).toBe("fine");
  });

  it("U13 a refused connection is retried and then names the host", async () => {
    const { upstream, http, model } = await bench([ok]);
    await upstream.close();
    const told: string[] = [];
    const { error } = await ask(model, request(undefined, { onRetry: (line) => told.push(line) }));
    expect(error?.code).toBe("upstream_unreachable");
    expect(error?.message).toContain(new URL(upstream.url).host);
    expect(error?.message).toContain("connection refused");
    expect(told).toHaveLength(3);
    await http.close();
  });

  it("U13 an unknown name and a failed TLS handshake name the host", async () => {
    const http = new HttpClient();
    const make = (baseUrl: string) =>
      createChatCompletionsModel(
        { id: "m", baseUrl, model: "m", origin: "config", retries: 1 },
        { http, times: quickTimes() },
      );
    const unknown = await ask(make("http://rotunda-test.invalid/v1"));
    expect(unknown.error?.code).toBe("upstream_unreachable");
    expect(unknown.error?.message).toContain("rotunda-test.invalid");
    const plain = createServer((socket) => socket.end("this is not TLS").on("error", () => {}));
    plain.listen(0, "127.0.0.1");
    await once(plain, "listening");
    const tls = await ask(make(`https://127.0.0.1:${(plain.address() as AddressInfo).port}/v1`));
    plain.close();
    expect(tls.error?.code).toBe("upstream_unreachable");
    expect(tls.error?.message).toContain("TLS failed");
    await http.close();
  });

  it("U13 a reset before the headers is retried", async () => {
    const { model, upstream } = await bench([{ silent: "reset" }, ok]);
    expect((await ask(model)).text).toBe("fine");
    expect(upstream.requests).toHaveLength(2);
  });

  it("U6 a connection that is never accepted ends by the connect timeout", async () => {
    // A listener that stands still: once its queue is full, the system answers no further connection.
    const worker = new Worker(
      `const { parentPort } = require("node:worker_threads");
       const server = require("node:net").createServer();
       server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
         parentPort.postMessage(server.address().port);
         setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 50);
       });`,
      { eval: true },
    );
    const [port] = (await once(worker, "message")) as [number];
    await new Promise((resolve) => setTimeout(resolve, 300));
    const fillers = Array.from({ length: 8 }, () => connect(port, "127.0.0.1").on("error", () => {}));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const http = new HttpClient();
    const baseUrl = `http://127.0.0.1:${port}/v1`;
    const config: ModelConfig = {
      id: "m",
      baseUrl,
      model: "m",
      origin: "config",
      retries: 1,
      timeouts: { connect: 0.3 },
    };
    const times = quickTimes();
    const { error } = await ask(createChatCompletionsModel(config, { http, times }));
    expect(error).toMatchObject({ code: "upstream_unreachable", partial: false });
    expect(error?.message).toContain("no connection in time");
    expect(times.waits).toHaveLength(1);
    for (const filler of fillers) filler.destroy();
    await http.close();
    await worker.terminate();
  });
});
