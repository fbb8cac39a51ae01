/** Webhooks and the notify command: what happens to responses is told, signed, at least once. */
import { createHmac, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { Upkeep, type UpkeepOptions } from "../../src/doors/http/upkeep.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import { inCluster, type Served, type ServedOptions, serve } from "./served.ts";

const SECRET = `whsec_${randomBytes(24).toString("base64")}`;
const FAST = { timeout: 30_000 };
const hello: UpstreamScript = [{ text: "hello" }];
const asksOnce: UpstreamScript = (_request, number) =>
  number === 0 ? { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] } : { text: "done" };

type Sent = Record<string, string>;

interface Told extends Served {
  upkeep: Upkeep;
  lines: string[];
}

/** A server that tells, with quick retries. */
async function telling(
  script: UpstreamScript,
  server: object,
  more: ServedOptions & UpkeepOptions = {},
): Promise<Told> {
  const lines: string[] = [];
  const { delays = [20, 20, 20, 20], expiry, beat = 20, ...options } = more;
  const served = await serve(script, {
    ...options,
    config: { ...options.config, server },
    door: { log: (line) => void lines.push(line), ...options.door },
  });
  const upkeep = new Upkeep(served.door.services, { delays, beat, ...(expiry !== undefined && { expiry }) });
  later(() => upkeep.close());
  await upkeep.prepare();
  await upkeep.start(() => undefined);
  return { ...served, upkeep, lines };
}

const hook = (receiver: Receiver, more: object = {}) => ({
  webhooks: [{ url: receiver.url, secret: SECRET, ...more }],
});
const until = (receiver: Receiver, count: number) =>
  expect.poll(() => receiver.told.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(count);

test("the newest openai SDK takes a delivery as one of OpenAI's", FAST, async () => {
  const receiver = await startReceiver();
  const { respond } = await telling(hello, hook(receiver));
  const { id } = await respond({ model: "test-model", input: "hi" });
  await until(receiver, 1);
  const [{ body = "", headers = {} } = {}] = receiver.told;
  const client = new OpenAI({ apiKey: "none", webhookSecret: SECRET });
  const event = await client.webhooks.unwrap(body, headers as Sent);
  expect(event).toMatchObject({ object: "event", type: "response.completed", data: { id } });
  expect(event.id).toBe(headers["webhook-id"]);
  expect(event.id).toMatch(/^evt_/);
  expect(Math.abs(event.created_at - Date.now() / 1_000)).toBeLessThan(60);
  expect(headers["content-type"]).toBe("application/json");
  // Who changes anything is found out.
  const forged = client.webhooks.unwrap(body.replace(id, `${id.slice(0, -1)}0`), headers as Sent);
  await expect(forged).rejects.toThrow(/signature/);
  const other = { ...(headers as Sent), "webhook-timestamp": String(Number(headers["webhook-timestamp"]) - 1) };
  await expect(client.webhooks.unwrap(body, other)).rejects.toThrow(/signature/);
  await expect(client.webhooks.unwrap(body, headers as Sent, "another secret")).rejects.toThrow(/signature/);
});

test("a secret that is a plain text is the key as it is", FAST, async () => {
  const receiver = await startReceiver();
  const { respond } = await telling(hello, { webhooks: [{ url: receiver.url, secret: "plain text" }] });
  await respond({ model: "test-model", input: "hi" });
  await until(receiver, 1);
  const [{ body = "", headers = {} } = {}] = receiver.told;
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const signature = createHmac("sha256", "plain text").update(signed).digest("base64");
  expect(headers["webhook-signature"]).toBe(`v1,${signature}`);
  await new OpenAI({ apiKey: "none" }).webhooks.unwrap(body, headers as Sent, "plain text");
});

test("each way to end has its event", FAST, async () => {
  const receiver = await startReceiver();
  const { respond, fetch } = await telling(({ body }) => {
    const asked = JSON.stringify(body.messages);
    if (asked.includes("#refuse")) return { status: 400, body: { error: { message: "no" } } };
    if (asked.includes("#half")) return { text: "half", finish: "length" };
    if (asked.includes("#stay")) return { silent: "hang" };
    return { text: "whole" };
  }, hook(receiver));
  const whole = await respond({ model: "test-model", input: "whole" });
  const failed = await respond({ model: "test-model", input: "#refuse" });
  const cut = await respond({ model: "test-model", input: "#half", max_output_tokens: 20 });
  const stays = await respond({ model: "test-model", input: "#stay", background: true });
  await fetch(`/v1/responses/${stays.id}/cancel`, { method: "POST" });
  await until(receiver, 4);
  expect(receiver.types(whole.id)).toEqual(["response.completed"]);
  expect(receiver.types(failed.id)).toEqual(["response.failed"]);
  expect(receiver.types(cut.id)).toEqual(["response.incomplete"]);
  expect(receiver.types(stays.id)).toEqual(["response.cancelled"]);
  const dataOf = (id: string) => receiver.told.find(({ event }) => event.data.id === id)?.event.data;
  expect(dataOf(whole.id)).toEqual({
    id: whole.id,
    object: "response",
    status: "completed",
    conversation_id: null,
    profile: "general",
    model: "test-model",
    door: "http",
    owner: "local",
    error: null,
    incomplete_reason: null,
    approval_ids: [],
    approvals: [],
  });
  expect(dataOf(failed.id)).toMatchObject({ status: "failed", error: { code: "upstream_bad_request" } });
  expect(dataOf(cut.id)).toMatchObject({ status: "incomplete", incomplete_reason: "max_output_tokens" });
  expect(dataOf(stays.id)).toMatchObject({ status: "cancelled" });
});

test(
  "a response that begins to wait for a person is told once, with what to answer; and then its end",
  FAST,
  async () => {
    const receiver = await startReceiver();
    const { respond, fetch, workspace } = await telling(asksOnce, hook(receiver));
    const { id } = await respond({ model: "test-model", input: "write", background: true });
    await until(receiver, 1);
    const { approvals } = (await (await fetch("/v1/tool-approvals")).json()) as { approvals: { id: string }[] };
    const [{ id: approval = "" } = {}] = approvals;
    expect(receiver.told[0]?.event).toMatchObject({
      type: "response.waiting",
      data: {
        id,
        status: "waiting",
        approval_ids: [approval],
        approvals: [{ id: approval, response_id: id, tool: "write" }],
      },
    });
    await fetch("/v1/tool-approval", { json: { approvalId: approval, approved: true } });
    await until(receiver, 2);
    expect(receiver.types(id)).toEqual(["response.waiting", "response.completed"]);
    expect(existsSync(join(workspace, "a.txt"))).toBe(true);
  },
);

test("a sub-agent's question is told of the response that a program knows, and its end is not", FAST, async () => {
  const receiver = await startReceiver();
  const { respond, fetch } = await telling(({ body }) => {
    const messages = body.messages as { role: string; content: string }[];
    const tools = JSON.stringify(body.tools ?? []);
    if (messages.some(({ role }) => role === "tool")) return { text: "done" };
    if (JSON.stringify(messages).includes("the whole task")) {
      return { calls: [{ name: "write", arguments: { file_path: "b.txt", content: "x" } }] };
    }
    expect(tools).toContain('"task"');
    return {
      calls: [{ name: "task", arguments: { agent_type: "general", description: "d", task: "the whole task" } }],
    };
  }, hook(receiver));
  const { id } = await respond({ model: "test-model", input: "delegate", background: true });
  await until(receiver, 1);
  const data = receiver.told[0]?.event.data;
  expect(data).toMatchObject({ id, approvals: [{ tool: "write", response_id: expect.not.stringMatching(id) }] });
  await fetch("/v1/tool-approval", { json: { approvalId: data?.approval_ids[0], approved: false } });
  await until(receiver, 2);
  expect(receiver.told.map(({ event }) => [event.type, event.data.id])).toEqual([
    ["response.waiting", id],
    ["response.completed", id],
  ]);
});

test("one that returned for approval says what it waits for when it ends", FAST, async () => {
  const receiver = await startReceiver();
  const { respond } = await telling(asksOnce, hook(receiver));
  const { id, output } = await respond({ model: "test-model", input: "write" });
  await until(receiver, 1);
  const request = output.find(({ type }) => type === "mcp_approval_request");
  expect(receiver.told[0]?.event).toMatchObject({
    type: "response.completed",
    data: { id, approval_ids: [request?.id] },
  });
});

test("only the events that a webhook asks for, and each webhook its own", FAST, async () => {
  const [all, ends] = [await startReceiver(), await startReceiver()];
  const { respond } = await telling(asksOnce, {
    webhooks: [
      { url: all.url, secret: SECRET },
      { url: ends.url, secret: "another", events: ["response.cancelled", "response.failed"] },
    ],
  });
  await respond({ model: "test-model", input: "write" });
  await until(all, 1);
  const { id } = await respond({ model: "no-such-model", input: "x" }).catch(() => ({ id: "" }));
  expect(id).toBe("");
  expect(ends.told).toEqual([]);
});

test("what is only written into the tree is not told: nothing ran", FAST, async () => {
  const receiver = await startReceiver();
  const { respond, fetch } = await telling(hello, hook(receiver));
  const items = [{ type: "message", role: "user", content: "kept" }];
  expect((await fetch("/v1/conversations", { json: { items } })).status).toBe(200);
  const { id } = await respond({ model: "test-model", input: "hi" });
  await until(receiver, 1);
  expect(receiver.told.map(({ event }) => event.data.id)).toEqual([id]);
});

test(
  "refusals, silence, redirects and resets are tried again, with the same id and a new signature",
  FAST,
  async () => {
    const answers = [
      { status: 500 },
      { status: 302, headers: { location: "http://127.0.0.1:1/elsewhere" } },
      { status: 404 },
      { status: 204 },
    ];
    const receiver = await startReceiver((number) => answers[number] ?? { status: 204 });
    const { respond, lines, app } = await telling(hello, hook(receiver));
    await respond({ model: "test-model", input: "hi" });
    await until(receiver, 4);
    expect(new Set(receiver.told.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(new Set(receiver.told.map(({ body }) => body)).size).toBe(1);
    const client = new OpenAI({ apiKey: "none", webhookSecret: SECRET });
    for (const { body, headers } of receiver.told) await client.webhooks.unwrap(body, headers as Sent);
    const target = () => app.store.takeDeliveries("", 1, "host/1/1/x");
    expect(await target()).toEqual([]);
    const said = lines.join("\n");
    for (const why of ["answered 500", "redirects are not followed", "answered 404"]) expect(said).toContain(why);
    expect(said).not.toContain(SECRET);
    expect(said).not.toContain("s3cret-path");
  },
);

test("410 is final; what fails to the last is given up, and said", FAST, async () => {
  const gone = await startReceiver(() => ({ status: 410 }));
  const broken = await startReceiver(() => ({ status: 503 }));
  const webhooks = [gone, broken].map(({ url }) => ({ url, secret: SECRET }));
  const { respond, lines } = await telling(hello, { webhooks }, { delays: [10, 10] });
  await respond({ model: "test-model", input: "hi" });
  await expect.poll(() => lines.filter((line) => line.includes("given up")).length, { timeout: 10_000 }).toBe(2);
  expect([gone.told.length, broken.told.length]).toEqual([1, 3]);
});

test(
  "an address that nobody listens on, and one that never answers, hold up neither a run nor another webhook",
  FAST,
  async () => {
    const silent = await startReceiver(() => ({ status: 200, silent: true }));
    const good = await startReceiver();
    const webhooks = ["http://127.0.0.1:1/x", silent.url, good.url].map((url) => ({ url, secret: SECRET }));
    const { respond, upkeep } = await telling(hello, { webhooks });
    const turns = Array.from({ length: 30 }, (_, index) => respond({ model: "test-model", input: `hi ${index}` }));
    const ids = (await Promise.all(turns)).map(({ id }) => id);
    await until(good, 30);
    expect(new Set(good.told.map(({ event }) => event.data.id))).toEqual(new Set(ids));
    // Never more than four at one address.
    expect(silent.told.length).toBe(4);
    expect(good.atOnce).toBeLessThanOrEqual(4);
    const before = performance.now();
    await upkeep.close();
    expect(performance.now() - before).toBeLessThan(5_000);
  },
);

// Both would be one worker of this process's queue.
test.skipIf(inCluster)("two servers on one database tell each event once", FAST, async () => {
  const receiver = await startReceiver();
  const first = await telling(hello, hook(receiver));
  const second = await telling(hello, hook(receiver), { folder: first.folder, endpoint: first.upstream });
  const turns = Array.from({ length: 20 }, (_, index) =>
    (index % 2 === 0 ? first : second).respond({ model: "test-model", input: `hi ${index}` }),
  );
  const ids = (await Promise.all(turns)).map(({ id }) => id);
  await until(receiver, 20);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(receiver.told.map(({ event }) => event.data.id).sort()).toEqual(ids.sort());
});

test("what could not be told before the server ended is told by the next one", FAST, async () => {
  const port = 0;
  const away = await startReceiver(() => ({ status: 200, silent: true }), port);
  const first = await telling(hello, hook(away));
  const { id } = await first.respond({ model: "test-model", input: "hi" });
  await until(away, 1);
  const before = performance.now();
  await first.upkeep.close();
  expect(performance.now() - before).toBeLessThan(5_000);
  await first.stop();
  const address = Number(new URL(away.url).port);
  away.close();
  const back = await startReceiver(undefined, address);
  await telling(hello, hook(back), { folder: first.folder, endpoint: first.upstream });
  await until(back, 1);
  expect(back.types(id)).toEqual(["response.completed"]);
  expect(back.told[0]?.headers["webhook-id"]).toBe(away.told[0]?.headers["webhook-id"]);
});

test("a reload puts other webhooks in force, and the ones before hear nothing more", FAST, async () => {
  const [before, after] = [await startReceiver(), await startReceiver()];
  const { respond, app, folder, upstream } = await telling(hello, hook(before));
  await respond({ model: "test-model", input: "hi" });
  await until(before, 1);
  const model = { id: "test-model", baseUrl: upstream.url, model: "test-model", apiKey: "sk-test-0123456789" };
  writeFileSync(join(folder, "rotunda.yaml"), JSON.stringify({ models: [model], server: hook(after) }));
  await app.reload();
  await expect
    .poll(async () => {
      await respond({ model: "test-model", input: "again" });
      return after.told.length;
    })
    .toBeGreaterThan(0);
  const count = before.told.length;
  await respond({ model: "test-model", input: "last" });
  await until(after, 2);
  expect(before.told.length).toBe(count);
});

test("a webhook that could never work is a fault of the configuration", FAST, async () => {
  const url = "https://hooks.example.com/x";
  for (const [webhooks, why] of [
    [[{ url: "ftp://example.com", secret: "x" }], /webhooks\[0\]\.url is no http address/],
    [[{ url, secret: "whsec_" }], /secret is empty/],
    [[{ url, secret: "x", events: ["response.done"] }], /events\[0\] is "response.done"; it can be response.waiting/],
    [
      [
        { url, secret: "x" },
        { url, secret: "y" },
      ],
      /stands there twice/,
    ],
  ] as const) {
    await expect(telling(hello, { webhooks })).rejects.toThrow(why);
  }
});

test(
  "the notify command gets the same JSON on stdin, at most four at once, and never holds up a run",
  FAST,
  async () => {
    const receiver = await startReceiver();
    const script =
      'n=$(ls running 2>/dev/null | wc -l); echo "$n" >> peaks; mkdir -p running; touch "running/$$"; cat >> told; sleep 0.2; rm "running/$$"';
    const { respond, workspace } = await telling(hello, { ...hook(receiver), notify: script });
    const turns = Array.from({ length: 8 }, (_, index) => respond({ model: "test-model", input: `hi ${index}` }));
    await Promise.all(turns);
    const lines = () =>
      (existsSync(join(workspace, "told")) ? readFileSync(join(workspace, "told"), "utf8") : "")
        .split("\n")
        .slice(0, -1);
    await expect.poll(() => lines().length, { timeout: 20_000 }).toBe(8);
    await until(receiver, 8);
    const sorted = (texts: string[]) => [...texts].sort();
    expect(sorted(lines())).toEqual(sorted(receiver.told.map(({ body }) => body)));
    const peaks = readFileSync(join(workspace, "peaks"), "utf8").trim().split("\n").map(Number);
    expect(Math.max(...peaks)).toBeLessThan(4);
  },
);

test(
  "a notify command that fails is told of and not run again; one that a shutdown cuts is run by the next server",
  FAST,
  async () => {
    const failing = await telling(hello, { notify: "echo no >> tries; echo it broke >&2; exit 3" });
    await failing.respond({ model: "test-model", input: "hi" });
    await expect
      .poll(() => failing.lines.join("\n"), { timeout: 10_000 })
      .toMatch(/exit code 3 it broke; it is given up/);
    expect(readFileSync(join(failing.workspace, "tries"), "utf8")).toBe("no\n");

    const slow = { notify: "echo begun >> tries; [ -e ready ] || sleep 60; cat > told" };
    const first = await telling(hello, slow);
    const { id } = await first.respond({ model: "test-model", input: "hi" });
    await expect.poll(() => existsSync(join(first.workspace, "tries")), { timeout: 10_000 }).toBe(true);
    await first.upkeep.close();
    await first.stop();
    writeFileSync(join(first.workspace, "ready"), "");
    await telling(hello, slow, { folder: first.folder, endpoint: first.upstream });
    await expect
      .poll(() => existsSync(join(first.workspace, "told")) && readFileSync(join(first.workspace, "told"), "utf8"), {
        timeout: 10_000,
      })
      .toContain(id);
  },
);
