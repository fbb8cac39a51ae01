/** Servers over Streamable HTTP: both generations, and M20 to M22. */
import { describe, expect, it } from "vitest";
import type { ServerConfig } from "../../src/types/config.ts";
import { type Endpoint, refuse, serve, serveLegacy, serveModern, serveRaw } from "../fixtures/mcp/http-servers.ts";
import { call, cleanup, context, openHub, temporaryDirectory, tool, until } from "./support.ts";

async function started<T extends Endpoint>(starting: Promise<T>): Promise<T> {
  const endpoint = await starting;
  cleanup(() => endpoint.close());
  return endpoint;
}

function http(endpoint: Endpoint, config: Partial<ServerConfig> = {}): ServerConfig {
  return { name: "remote", transport: "http", url: endpoint.url, disabled: false, origin: "test", ...config };
}

function methods(endpoint: Endpoint): string[] {
  return endpoint.requests.filter(({ method }) => method === "POST").map(({ rpc }) => rpc);
}

describe("both generations", () => {
  it("speaks 2026-07-28 where it is spoken, without a handshake", async () => {
    const endpoint = await started(serveModern("reject"));
    const hub = openHub(temporaryDirectory(), [http(endpoint, { headers: { Authorization: "Bearer abc" } })]);
    expect((await hub.list()).map(({ name }) => name)).toEqual([
      "remote__ask",
      "remote__echo",
      "remote__route",
      "remote__wait",
    ]);
    expect(await call(hub, "remote__echo", { text: "hello" })).toEqual({ text: "hello" });
    expect(methods(endpoint)).toEqual(expect.arrayContaining(["server/discover", "tools/list", "tools/call"]));
    expect(methods(endpoint)).not.toContain("initialize");
    for (const { headers } of endpoint.requests) expect(headers.authorization).toBe("Bearer abc");
  });

  it("M21: falls back to 2025, and remembers it for the next process", async () => {
    const endpoint = await started(serveLegacy());
    const directory = temporaryDirectory();
    const hub = openHub(directory, [http(endpoint)]);
    expect(await call(hub, "remote__echo", { text: "old" })).toEqual({ text: "old" });
    expect(methods(endpoint).slice(0, 2)).toEqual(["server/discover", "initialize"]);
    await hub.close();
    endpoint.requests.length = 0;
    const again = openHub(directory, [http(endpoint)]);
    expect(await call(again, "remote__echo", { text: "again" })).toEqual({ text: "again" });
    expect(methods(endpoint)[0]).toBe("initialize");
  });

  it("M21: a server that has moved on since then is asked anew", async () => {
    const old = await started(serveLegacy());
    const modern = await started(serveModern("reject"));
    let target: Endpoint = old;
    const proxy = await started(
      serve(async (request, response, body) => {
        const { host: _host, "content-length": _length, connection: _connection, ...headers } = request.headers;
        const method = request.method ?? "POST";
        const answer = await fetch(target.url, {
          method,
          headers: headers as Record<string, string>,
          ...(method === "POST" ? { body: JSON.stringify(body) } : {}),
        });
        const passed = ["content-type", "mcp-session-id"].flatMap((name) => {
          const value = answer.headers.get(name);
          return value === null ? [] : [[name, value] as const];
        });
        response.writeHead(answer.status, Object.fromEntries(passed));
        if (method === "GET") answer.body?.cancel().catch(() => undefined);
        response.end(method === "GET" ? "" : await answer.text());
      }),
    );
    const directory = temporaryDirectory();
    const hub = openHub(directory, [http(proxy)]);
    expect(await call(hub, "remote__echo", { text: "old" })).toEqual({ text: "old" });
    await hub.close();
    target = modern;
    const again = openHub(directory, [http(proxy)]);
    expect(await call(again, "remote__echo", { text: "new" })).toEqual({ text: "new" });
    expect(modern.calls).toEqual(["echo"]);
  });

  it.each(["modern", "legacy"] as const)("a cancel and a timeout reach the server (%s)", async (generation) => {
    const endpoint = await started(generation === "modern" ? serveModern("reject") : serveLegacy());
    const hub = openHub(temporaryDirectory(), [http(endpoint, { timeout: 0.5 })]);
    expect((await call(hub, "remote__wait")).text).toMatch(/timed out after 0.5 s/);
    await until(() => endpoint.calls.includes("wait ended"));
    const controller = new AbortController();
    const running = call(hub, "remote__wait", {}, controller.signal);
    await until(() => endpoint.calls.filter((each) => each === "wait").length === 2);
    controller.abort();
    expect((await running).text).toMatch(/cancelled/);
    await until(() => endpoint.calls.filter((each) => each === "wait ended").length === 2);
  });

  it.each(["modern", "legacy"] as const)("N13 tools/list_changed leads to a new list (%s)", async (generation) => {
    const endpoint = await started(generation === "modern" ? serveModern("reject") : serveLegacy());
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    await hub.list();
    const listings = () => methods(endpoint).filter((each) => each === "tools/list").length;
    expect(listings()).toBe(1);
    await until(() => endpoint.requests.some(({ method, rpc }) => method === "GET" || rpc === "subscriptions/listen"));
    await new Promise((resolve) => setTimeout(resolve, 200));
    endpoint.announce();
    await until(() => listings() === 2);
  });

  it.each(["modern", "legacy"] as const)("M17: elicitation is refused (%s)", async (generation) => {
    const endpoint = await started(generation === "modern" ? serveModern("reject") : serveLegacy());
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    const result = await call(hub, "remote__ask");
    expect(result.isError).toBe(true);
    expect(endpoint.calls).toEqual(["ask"]);
  });

  it("M22: parameters that want to be headers are, whatever is in them", async () => {
    const endpoint = await started(serveModern("reject"));
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    for (const region of ["eu-west", "a\r\nX-Evil: 1", "名前"]) {
      expect(await call(hub, "remote__route", { region })).toEqual({ text: region, structured: { region } });
      const headers = endpoint.requests.findLast(({ rpc }) => rpc === "tools/call")?.headers;
      expect(headers?.["x-evil"]).toBeUndefined();
      expect(headers?.["mcp-param-region"]).toBeDefined();
    }
  });
});

describe("when the server fails", () => {
  it("M20: a lost session is opened anew and the call runs once", async () => {
    const endpoint = await started(serveLegacy());
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    await call(hub, "remote__echo", { text: "one" });
    endpoint.forget();
    expect(await call(hub, "remote__echo", { text: "two" })).toEqual({ text: "two" });
    expect(endpoint.calls).toEqual(["echo", "echo"]);
  });

  it("a server that is not there is tried three times, and used when it is back", async () => {
    const endpoint = await started(serveModern("stateless"));
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    const echo = await tool(hub, "remote__echo");
    await endpoint.close();
    // Until the ends of the idle connections have reached the client.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const result = await echo.run({ text: "x" }, context());
    expect(result.text).toMatch(
      /^\[Tool call failed after 3 attempts: cannot reach http:.*\/mcp: connection refused\]$/,
    );
    expect(hub.servers()[0]).toMatchObject({ state: "failed", error: expect.stringContaining("connection refused") });
    expect(endpoint.calls).toEqual([]);
    const back = await started(serveModern("stateless", Number(new URL(endpoint.url).port)));
    await hub.restart("remote");
    expect(await echo.run({ text: "x" }, context())).toEqual({ text: "x" });
    expect(back.calls).toEqual(["echo"]);
  });

  it("a connection that is cut during a call is not used for a second try", async () => {
    let calls = 0;
    const endpoint = await started(
      serveRaw((request) => {
        calls++;
        request.socket.destroy();
      }),
    );
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    expect((await call(hub, "remote__echo")).text).toMatch(/may have taken effect; it was not run again/);
    expect(calls).toBe(1);
  });

  it("a stream that ends without an answer is an error at once", async () => {
    const endpoint = await started(
      serveRaw((_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end(": nothing\n\n");
      }),
    );
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    expect((await call(hub, "remote__echo")).text).toMatch(/ended its stream without an answer/);
  });

  it.each([
    ["one event", "data: ", "x".repeat(64 * 1024), ""],
    ["small events", "", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n`.repeat(500), ""],
    ["one JSON body", "[", "1,".repeat(32 * 1024), ""],
  ])("M20: an endless answer (%s) is cut off", async (what, first, more) => {
    const endpoint = await started(
      serveRaw((_request, response) => {
        const type = what === "one JSON body" ? "application/json" : "text/event-stream";
        response.writeHead(200, { "content-type": type });
        response.write(first);
        const pour = () => {
          while (!response.destroyed && response.write(more));
        };
        response.on("drain", pour);
        pour();
      }),
    );
    const hub = openHub(temporaryDirectory(), [http(endpoint, { timeout: 20 })]);
    const before = process.memoryUsage().rss;
    const result = await call(hub, "remote__echo");
    expect(result.isError).toBe(true);
    expect(result.text).not.toMatch(/timed out/);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
  });

  it.each([302, 307, 308])(
    "M20: a redirect (%i) to another origin is not followed and gets no headers",
    async (status) => {
      const trap = await started(serve((_request, response) => void response.end("{}")));
      const endpoint = await started(
        serve((_request, response) => void response.writeHead(status, { location: trap.url }).end()),
      );
      const config = http(endpoint, { headers: { Authorization: "Bearer secret-token" } });
      const hub = openHub(temporaryDirectory(), [config]);
      expect(await hub.list()).toEqual([]);
      expect(hub.servers()[0]?.error).toMatch(/[Rr]edirect/);
      expect(trap.requests).toEqual([]);
    },
  );

  it("M20: a 401 is a login that is needed, and what it names is not fetched before one is begun", async () => {
    const trap = await started(serve((_request, response) => void response.end("{}")));
    const endpoint = await started(
      serve((_request, response) => {
        response.setHeader("www-authenticate", `Bearer resource_metadata="${trap.url}"`);
        refuse(response, 401, -32000, "Unauthorized");
      }),
    );
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    expect(await hub.list()).toEqual([]);
    expect(hub.servers()[0]).toMatchObject({ state: "needs_login", error: expect.stringContaining("hub login") });
    expect(trap.requests).toEqual([]);
  });

  it("M9: HTML instead of JSON is an error result", async () => {
    const endpoint = await started(
      serveRaw((_request, response) => {
        response.writeHead(200, { "content-type": "text/html" });
        response.end("<h1>Welcome</h1>");
      }),
    );
    const hub = openHub(temporaryDirectory(), [http(endpoint)]);
    expect((await call(hub, "remote__echo")).text).toMatch(/Unexpected content type: text\/html/);
  });
});
