/** What the door tells of itself: the document, the metrics; and how wide it lets itself be opened. */
import { expect, test } from "vitest";
import { createHttpDoor } from "../../src/doors/http/server.ts";
import { openDoor, post } from "./door.ts";

interface Document {
  openapi: string;
  paths: Record<
    string,
    Record<
      string,
      {
        responses: Record<string, unknown>;
        requestBody?: { content: Record<string, { schema: unknown }> };
        security?: unknown[];
        parameters: { name: string; in: string }[];
      }
    >
  >;
}

test("every route of the table is published with the schema that validates", async () => {
  const { request, door } = await openDoor();
  const document = (await (await request("/openapi.json")).json()) as Document;
  expect(document.openapi).toBe("3.1.0");
  // The page answers at many addresses, and is published at one.
  expect(document.paths).not.toHaveProperty("/c/{name}");
  const published = door.services.routes.filter(({ alias }) => !alias);
  for (const route of published) {
    const operation = document.paths[route.path.replace(/:(\w+)/g, "{$1}")]?.[route.method.toLowerCase()];
    expect(operation, `${route.method} ${route.path}`).toBeDefined();
    expect(Boolean(operation?.requestBody)).toBe(Boolean(route.body));
    expect(operation?.security === undefined).toBe(route.scope !== null);
    const names = operation?.parameters.filter((one) => one.in === "path").map(({ name }) => name);
    expect(names).toEqual([...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name));
  }
  const operations = Object.values(document.paths).reduce((sum, path) => sum + Object.keys(path).length, 0);
  expect(operations).toBe(published.length);
  expect(document.paths["/demo/echo"]?.post?.requestBody?.content["application/json"]?.schema).toMatchObject({
    type: "object",
    required: ["text"],
    properties: { text: { type: "string" }, items: { type: "array" } },
  });
});

test("metrics count requests, durations, streams, faults", async () => {
  const { request } = await openDoor();
  await (await request("/demo/who")).text();
  await (await request("/demo/broken")).text();
  await (await request("/nowhere")).text();
  const stream = await request("/demo/stream?stay&count=1");
  await request("/metrics");
  const text = await (await request("/metrics")).text();
  expect(text).toContain('rotunda_http_requests_total{method="GET",route="/demo/who",status="200"} 1');
  expect(text).toContain('rotunda_http_requests_total{method="",route="(none)",status="404"} 1');
  expect(text).toMatch(/rotunda_http_request_duration_seconds_bucket\{method="GET",route="\/demo\/who",le="\+Inf"\} 1/);
  expect(text).toContain("rotunda_http_open_streams 1");
  expect(text).toContain("rotunda_faults_total 1");
  expect(text).toContain("rotunda_unhandled_rejections_total 0");
  expect(text).toMatch(/process_resident_memory_bytes \d{7,}/);
  expect(text).toMatch(/rotunda_event_loop_delay_seconds\{quantile="0.99"\} /);
  for (const line of text.trim().split("\n"))
    expect(line).toMatch(/^(# (HELP|TYPE) |[a-z_]+(\{[^}]*\})? [-+.\deNa]+$)/);
  await stream.body?.cancel();
});

test("the door does not open wider than was meant", async () => {
  const { app } = await openDoor();
  const wrong = [
    { host: "0.0.0.0" },
    { host: "::" },
    { host: "192.0.2.1" },
    { host: "0.0.0.0", auth: "none", behindProxy: true },
    { auth: "none", behindProxy: true },
    { host: "example.com", auth: "none" },
  ] as const;
  for (const options of wrong)
    expect(() => createHttpDoor(app, options)).toThrow(expect.objectContaining({ code: "usage" }));
  for (const cors of [["*"], ["null"], ["app.example"], ["https://app.example/path"]]) {
    expect(() => createHttpDoor(app, { cors })).toThrow(expect.objectContaining({ code: "usage" }));
  }
  expect(() => createHttpDoor(app, { hosts: ["a b"] })).toThrow(expect.objectContaining({ code: "usage" }));
});

test("D14 a port that is in use is said plainly", async () => {
  const { app, port } = await openDoor();
  const second = createHttpDoor(app, { port, localToken: "x" });
  await expect(second.listen()).rejects.toMatchObject({ code: "usage", message: expect.stringContaining("in use") });
});

test("without a token whoever reaches the port is local", async () => {
  const { request, door } = await openDoor({ auth: "none" });
  expect(door.open).toBe(true);
  for (const as of [null, "anything"])
    expect(await (await request("/demo/who", { as })).json()).toMatchObject({ owner: "local" });
  expect((await request("/demo/who", { as: null, headers: { origin: "https://evil.example" } })).status).toBe(403);
});

test("behind a proxy what needs admin is not done from afar, unless that was allowed", async () => {
  const afar = { "x-forwarded-for": "203.0.113.7" };
  const press = async (options: object, named: boolean, headers: Record<string, string>) => {
    const { request, token, local } = await openDoor(options);
    const as = named ? await token({ scopes: ["admin"] }) : local;
    return (await request("/demo/press", { method: "POST", as, headers })).status;
  };
  expect(await press({}, true, {})).toBe(200);
  expect(await press({ behindProxy: true }, true, afar)).toBe(403);
  expect(await press({ behindProxy: true }, true, {})).toBe(403);
  expect(await press({ behindProxy: true }, false, afar)).toBe(403);
  expect(await press({ behindProxy: true }, false, {})).toBe(200);
  expect(await press({ behindProxy: true, allowRemoteAdmin: true }, true, afar)).toBe(200);
});

test("an unhandled rejection is counted and logged, and the door stays up", async () => {
  const { door, lines, request } = await openDoor();
  // Vitest listens as well, and would call the run a failure.
  const others = process.listeners("unhandledRejection");
  const ours = others.filter(
    (listener) => listener.name === "onUnhandled" || String(listener).includes("unhandledRejections"),
  );
  for (const one of others) if (!ours.includes(one)) process.off("unhandledRejection", one);
  try {
    void Promise.reject(new Error("nobody looks, hunter22"));
    await expect.poll(() => door.services.metrics.unhandledRejections).toBe(1);
  } finally {
    for (const one of others) if (!ours.includes(one)) process.on("unhandledRejection", one);
  }
  expect(lines.join("\n")).toContain("nobody looks, ***");
  expect((await request("/demo/echo", post({ text: "a" }))).status).toBe(200);
});
