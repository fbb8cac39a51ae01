/** Idempotency-Key on requests that start no response. */
import { expect, test } from "vitest";
import { openDoor, post } from "./door.ts";

const key = (value: string, body: unknown = {}): RequestInit => ({
  ...post(body),
  headers: { "idempotency-key": value },
});

test("K3 G4 the same key gives the same answer: while it runs, afterwards, and not for another body", async () => {
  const { request, demo, app, token } = await openDoor();
  const first = request("/demo/effects", key("k1", { wait: true }));
  await expect.poll(() => demo.effects).toBe(1);
  const second = request("/demo/effects", key("k1", { wait: true }));
  const other = await request("/demo/effects", key("k1", { wait: false }));
  expect([other.status, await other.json()]).toMatchObject([422, { error: expect.any(String) }]);
  demo.go();
  const [a, b] = await Promise.all([first, second]);
  expect([a.status, await a.text()]).toEqual([201, '{"effect":1}']);
  expect([b.status, await b.text(), b.headers.get("idempotent-replayed")]).toEqual([201, '{"effect":1}', "true"]);
  const later = await request("/demo/effects", key("k1", { wait: true }));
  expect([later.status, await later.text()]).toEqual([201, '{"effect":1}']);
  expect((await request("/demo/effects", key("k1", { wait: false }))).status).toBe(422);
  expect((await request("/demo/press", { method: "POST", headers: { "idempotency-key": "k1" } })).status).toBe(422);
  expect(demo.effects).toBe(1);
  expect(await app.store.idempotency("local", "k1")).toMatchObject({ answer: { status: 201, body: '{"effect":1}' } });
  // Keys are the owner's own.
  expect(await (await request("/demo/effects", { ...key("k1", { wait: true }), as: await token() })).text()).toBe(
    '{"effect":2}',
  );
});

test("many at one moment are carried out once", async () => {
  const { request, demo } = await openDoor();
  demo.go();
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => request("/demo/effects", key("k2", { wait: true }))),
  );
  expect(new Set(await Promise.all(answers.map((answer) => answer.text())))).toEqual(new Set(['{"effect":1}']));
  expect(demo.effects).toBe(1);
});

test("a failure that tells nothing of the next try is not kept; what is no key is refused", async () => {
  const { request, demo } = await openDoor();
  for (const status of [500, 503, 429, 409]) {
    expect((await request("/demo/effects", key(`s${status}`, { status }))).status).toBe(status);
    expect((await request("/demo/effects", key(`s${status}`, { status }))).status).toBe(status);
  }
  expect(demo.effects).toBe(8);
  expect((await request("/demo/effects", key("s404", { status: 404 }))).status).toBe(404);
  expect((await request("/demo/effects", key("s404", { status: 404 }))).status).toBe(404);
  expect(demo.effects).toBe(9);
  for (const value of ["", "x".repeat(256), "é"]) {
    expect([value, (await request("/demo/effects", key(value))).status]).toEqual([value, 400]);
  }
  expect((await request("/demo/effects", key("x".repeat(255)))).status).toBe(201);
});
