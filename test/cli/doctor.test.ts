/** What the doctor says of a database that cannot be opened, of Postgres and of models; and what other commands say then. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import {
  freshSchema,
  hasPostgres,
  query,
  sharedPostgres,
  stopSharedPostgres,
  tellMissing,
} from "../support-postgres.ts";
import { type Home, home } from "./run.ts";

const SLOW = { timeout: 60_000 };

interface Finding {
  name: string;
  state: string;
  text: string;
  remedy?: string;
}

async function findings(place: Home, ...flags: string[]): Promise<Finding[]> {
  const { out, err } = await place.run(["doctor", "--json", ...flags]);
  expect(out, err).not.toBe("");
  return (JSON.parse(out) as { findings: Finding[] }).findings;
}

test("a file that is no database: one advice, said once, and the same everywhere", SLOW, async () => {
  const place = home();
  await place.run(["chat", "hello"]);
  const file = join(place.environment.ROTUNDA_HOME ?? "", "rotunda.db");
  writeFileSync(file, Buffer.alloc(200, "x"), { flag: "r+" });
  const { code, out } = await place.run(["doctor"]);
  expect(code).toBe(1);
  expect(out.match(/not a database/g)).toHaveLength(1);
  expect(out).toContain("Restore the file from a backup");
  expect(out).not.toContain("takes it out");
  const repair = await place.run(["doctor", "--repair"]);
  expect([repair.code, repair.err]).toEqual([1, expect.stringContaining("Restore the file from a backup")]);
  for (const words of [["chat", "hello"], ["log"]]) {
    expect((await place.run(words)).err).toMatch(
      /not a database\n {2}Restore the file from a backup: .*--repair cannot/,
    );
  }
});

test("damaged pages: the error of any command leads to the doctor", SLOW, async () => {
  const place = home();
  await place.run(["chat", "hello"]);
  const file = join(place.environment.ROTUNDA_HOME ?? "", "rotunda.db");
  const { size } = (await import("node:fs")).statSync(file);
  const { openSync, writeSync, closeSync } = await import("node:fs");
  const descriptor = openSync(file, "r+");
  // All but the first pages, which hold the list of tables.
  for (let at = 32 * 1024; at < size; at += 1024) writeSync(descriptor, Buffer.alloc(1_024, 0xff), 0, 1_024, at);
  closeSync(descriptor);
  const { code, err } = await place.run(["log"]);
  expect([code, err]).toEqual([1, expect.stringMatching(/damaged.*\n {2}.*rotunda doctor --repair/)]);
});

test("models are not asked, unless with --online: then each says what came of it", SLOW, async () => {
  const upstream = await startUpstream([{ text: "hello" }]);
  later(() => upstream.close());
  const asked: (string | undefined)[] = [];
  const listing = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const known = request.headers.authorization === "Bearer right-key-of-tests";
    response.writeHead(known ? 200 : 401, { "content-type": "application/json" });
    response.end(known ? JSON.stringify({ object: "list", data: [{ id: "big" }] }) : "{}");
  });
  await new Promise<void>((resolve) => listing.listen(0, "127.0.0.1", resolve));
  later(() => void listing.close());
  const baseUrl = `http://127.0.0.1:${(listing.address() as AddressInfo).port}/v1`;
  const models = [
    { id: "good", baseUrl, model: "big", apiKey: "right-key-of-tests", query: { "api-version": "1" } },
    { id: "other", baseUrl, model: "small", apiKey: "right-key-of-tests" },
    { id: "refused", baseUrl, model: "big", apiKey: "wrong-key-of-tests" },
    { id: "gone", baseUrl: "http://127.0.0.1:9/v1", model: "big" },
  ];
  const place = home();
  writeFileSync(join(place.workspace, "rotunda.json"), JSON.stringify({ models }));
  const quiet = await findings(place);
  expect(asked).toEqual([]);
  expect(quiet.find(({ name }) => name === "models")?.text).toContain("good, other, refused, gone (not asked;");
  const online = new Map((await findings(place, "--online")).map((finding) => [finding.name, finding]));
  expect(asked.sort()).toEqual(["GET /v1/models", "GET /v1/models", "GET /v1/models?api-version=1"]);
  expect(online.get("model good")).toMatchObject({ state: "ok", text: expect.stringContaining("it among them") });
  expect(online.get("model other")).toMatchObject({
    state: "warning",
    text: expect.stringContaining("none is called small"),
  });
  expect(online.get("model refused")).toMatchObject({
    state: "fault",
    text: expect.stringContaining("refuses the key (401)"),
  });
  expect(online.get("model gone")).toMatchObject({
    state: "fault",
    text: expect.stringContaining("cannot be reached"),
  });
});

tellMissing();

test.skipIf(!hasPostgres)(
  "on Postgres: which server, how much is stored, how much waits; no password",
  SLOW,
  async () => {
    later(() => stopSharedPostgres());
    const { url } = await sharedPostgres();
    const schema = freshSchema();
    later(async () => void (await query(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)));
    const place = home({ ROTUNDA_DATABASE: `${url}${url.includes("?") ? "&" : "?"}schema=${schema}` });
    const said = await place.run(["chat", "--output-format", "json", "hello"]);
    const found = (await findings(place)).find(({ name }) => name === "database");
    expect(found).toMatchObject({
      state: "ok",
      text: expect.stringMatching(/^postgres.*\(Postgres \d+, 1 response, 0 waiting in the queue\)$/),
    });
    expect(found?.text).not.toContain("secret-of-tests");
    const { response_id: id } = JSON.parse(said.out) as { response_id: string };
    await query(url, `UPDATE ${schema}.responses SET deleted_at = 1893456000000`);
    const shown = await place.run(["show", id.slice(-8)]);
    expect([shown.code, shown.err]).toEqual([2, `rotunda: response ${id} was deleted on 2030-01-01\n`]);
  },
);
