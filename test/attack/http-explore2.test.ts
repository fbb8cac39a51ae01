import { test } from "vitest";
import { serve } from "../http/served.ts";
import { watchTurns } from "../http/turns.ts";
import { appendFileSync } from "node:fs";
import { newId } from "../../src/util/ids.ts";
const log = (...a: unknown[]) => appendFileSync("/tmp/explore2.log", a.map((x) => typeof x === "string" ? x : JSON.stringify(x)).join(" ").slice(0, 900) + "\n");
const timed = async (name: string, go: () => Promise<Response>) => {
  const turns = watchTurns();
  const began = performance.now();
  const r = await go();
  const t = await r.text();
  log(name, r.status, "bytes", t.length, "ms", Math.round(performance.now() - began), "longest turn", Math.round(turns.stop()), r.status >= 400 ? t.slice(0, 200) : "");
  return t;
};

test("profiles of a limited token", async () => {
  const served = await serve(() => ({ text: "x" }), { config: { profiles: { secret: { instructions: "the secret prompt", guidelines: "secret guide" } }, profile: "secret" } });
  const token = await served.newToken({ profiles: ["explore"] });
  for (const path of ["/v1/profiles", "/v1/profiles/current", "/v1/models"]) {
    const r = await served.fetch(path, { token });
    log("LIMITED", path, r.status, await r.text());
  }
  for (const model of ["profile/secret", "profile/none", "profile/explore"]) {
    const r = await served.fetch("/v1/responses", { token, json: { model, input: "x" } });
    log("LIMITED", model, r.status, (await r.text()).slice(0, 300));
  }
  // another one's response through the profile
  const r = await served.respond({ model: "profile/secret", input: "x" });
  log("x", r.id.length);
});

test("long history", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const c = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  for (let n = 0; n < 60; n++) {
    const items = Array.from({ length: 1000 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: `item ${n} ${i} ` + "lorem ipsum ".repeat(10) }));
    const r = await served.fetch(`/v1/conversations/${c.id}/items`, { json: { items } });
    if (r.status !== 200) log("ADD", r.status, await r.text());
  }
  await timed("LONG add", () => served.fetch(`/v1/conversations/${c.id}/items`, { json: { items: [{ role: "user", content: "x" }] } }));
  await timed("LONG get", () => served.fetch(`/v1/conversations/${c.id}`));
  await timed("LONG list", () => served.fetch(`/v1/conversations`));
  await timed("LONG list again", () => served.fetch(`/v1/conversations`));
  const t = await timed("LONG items 20", () => served.fetch(`/v1/conversations/${c.id}/items?limit=20`));
  const id = (JSON.parse(t) as { data: { id: string }[] }).data[0]?.id;
  await timed("LONG item", () => served.fetch(`/v1/conversations/${c.id}/items/${id}`));
  await timed("LONG update", () => served.fetch(`/v1/conversations/${c.id}`, { json: { metadata: { a: "b" } } }));
  await timed("LONG tokens", () => served.fetch(`/v1/responses/input_tokens`, { json: { model: "test-model", input: "x", conversation: c.id } }));
  await timed("LONG turn", () => served.fetch(`/v1/responses`, { json: { model: "test-model", input: "x", conversation: c.id } }));
  await timed("LONG chat", () => served.fetch(`/v1/chat/completions`, { json: { model: "test-model", messages: [{ role: "user", content: "x" }], conversation_id: c.id } }));
  await timed("LONG speakmcp", () => served.fetch(`/v1/chat/completions`, { headers: { "x-rotunda-events": "speakmcp" }, json: { model: "test-model", stream: true, messages: [{ role: "user", content: "x" }], conversation_id: c.id } }));
  await timed("LONG branch", () => served.fetch(`/v1/conversations/${c.id}/branch`, { json: {} }));
  await timed("LONG delete item", () => served.fetch(`/v1/conversations/${c.id}/items/${id}`, { method: "DELETE" }));
}, 180_000);

test("references", async () => {
  const served = await serve(() => ({ text: "ok" }));
  let prev: string | undefined;
  for (let n = 0; n < 200; n++) prev = (await served.respond({ model: "test-model", input: `n ${n}`, ...(prev && { previous_response_id: prev }) })).id;
  const item = newId("msg");
  await timed("REFS", () => served.fetch("/v1/responses", { json: { model: "test-model", previous_response_id: prev, input: Array.from({ length: 1 }, () => ({ type: "item_reference", id: item })) } }));
  const items = (await (await served.fetch(`/v1/responses/${prev}/input_items`)).json()) as { data: { id: string }[] };
  await timed("REFS 2000", () => served.fetch("/v1/responses", { json: { model: "test-model", previous_response_id: prev, input: Array.from({ length: 2000 }, () => ({ type: "item_reference", id: items.data[0]?.id })) } }));
}, 120_000);

test("fat settings", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const one = await served.newToken();
  const fat = "x".repeat(5_000_000);
  let last = "";
  for (let n = 0; n < 30; n++) { const r = await served.fetch("/v1/responses", { token: one, json: { model: "test-model", input: "x", instructions: fat } }); last = ((await r.json()) as { id: string }).id; }
  await timed("FAT list", () => served.fetch("/v1/responses?limit=100", { token: one }));
  await timed("FAT list other's", () => served.fetch("/v1/responses?limit=100"));
  const two = await served.newToken();
  const time = async (id: string) => { const ts: number[] = []; for (let n = 0; n < 9; n++) { const b = performance.now(); await (await served.fetch(`/v1/responses/${id}`, { token: two })).text(); ts.push(performance.now() - b); } return ts.sort((a, b) => a - b)[4]; };
  log("FAT foreign", await time(last), "unknown", await time(newId("resp")));
  await timed("FAT stop", () => served.fetch("/v1/emergency-stop", { method: "POST" }));
}, 120_000);

test("approvals many", async () => {
  const served = await serve(() => ({ calls: Array.from({ length: 30 }, (_, n) => ({ name: "write", arguments: { file_path: `a${n}.txt`, content: "x".repeat(2000) } })) }));
  const one = await served.newToken({ scopes: ["responses:write", "approve", "responses:read"] });
  await Promise.all(Array.from({ length: 100 }, () => served.respond({ model: "test-model", input: "w", background: true }, one)));
  await new Promise((r) => setTimeout(r, 3000));
  await timed("APPROVALS", () => served.fetch("/v1/tool-approvals"));
  await timed("APPROVALS", () => served.fetch("/v1/tool-approvals", { token: one }));
}, 120_000);

test("queue of 1000", async () => {
  const served = await serve(async () => { await new Promise((r) => setTimeout(r, 20)); return { text: "ok" }; });
  let prev: string | undefined;
  const ids: string[] = [];
  const turns = watchTurns();
  for (let n = 0; n < 1000; n++) { prev = (await served.respond({ model: "test-model", background: true, input: `n ${n}`, ...(prev && { previous_response_id: prev }) })).id; ids.push(prev); }
  log("QUEUE made", Math.round(turns.stop()));
  const c = await timed("CANCEL middle", () => served.fetch(`/v1/responses/${ids[900]}/cancel`, { method: "POST" }));
  log((JSON.parse(c) as { status: string }).status);
  await timed("DELETE a queued with followers", () => served.fetch(`/v1/responses/${ids[950]}`, { method: "DELETE" }));
  const before = performance.now();
  await served.app.engine.wait(ids[999] ?? "");
  log("QUEUE last", (await served.app.store.node(ids[999] ?? ""))?.status, Math.round(performance.now() - before));
  const states = await Promise.all(ids.map(async (id) => (await served.app.store.node(id))?.status ?? "gone"));
  log(Object.entries(Object.groupBy(states, (s) => s)).map(([k, v]) => `${k}:${v?.length}`));
}, 180_000);

test("1000 conversations at once under one name", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const turns = watchTurns();
  const rs = await Promise.all(Array.from({ length: 1000 }, (_, n) => served.fetch("/v1/chat/completions", { json: { model: "test-model", messages: [{ role: "user", content: `m${n}` }], conversation_id: "same" } }).then((r) => r.status, (e) => String(e))));
  log("NAMED", Object.entries(Object.groupBy(rs, String)).map(([k, v]) => `${k}:${v?.length}`), "longest", Math.round(turns.stop()));
  const cs = await served.app.store.conversations({ limit: 10 });
  log(cs.length, (await served.app.store.path(cs[0]?.head ?? "")).length);
}, 180_000);
