/** `rotunda doctor` on a database that somebody has damaged by hand. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Build, makeBuild } from "../../reliability/build.ts";
import { makePlace, type Place, runRotunda, Server } from "../../reliability/server.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";

const SLOW = { timeout: 60_000 };
let build: Build;

beforeAll(async () => {
  build = await makeBuild();
}, 60_000);

afterAll(() => build.remove());

interface Report {
  findings: { name: string; state: string; text: string; remedy?: string }[];
  examined: { damaged: { id: string; why: string; logOnly: boolean }[]; responses: number };
  repaired?: { quarantined: { id: string }[]; logs: string[]; vouched: string[]; moved: string[] };
}

/** A place with one conversation of three turns; their ids. */
async function conversation(): Promise<{ place: Place; ids: string[] }> {
  const upstream = await startUpstream([{ text: ["one ", "two ", "three"] }]);
  later(() => upstream.close());
  const place = makePlace({ build, endpoint: upstream.url, config: { mcpServers: {} } });
  later(() => place.remove());
  for (let turn = 0; turn < 3; turn++) {
    const { code, said } = await runRotunda(build, place, ["chat", "--conversation", "talk", `question ${turn}`]);
    expect([code, said]).toEqual([0, expect.any(String)]);
  }
  const ids = query(place, "SELECT id FROM responses ORDER BY number").map(({ id }) => String(id));
  expect(ids).toHaveLength(3);
  return { place, ids };
}

function query(place: Place, sql: string, ...parameters: (string | number)[]): Record<string, unknown>[] {
  const db = new DatabaseSync(place.database);
  try {
    return db.prepare(sql).all(...parameters);
  } finally {
    db.close();
  }
}

async function doctor(place: Place, ...flags: string[]): Promise<{ code: number | null; report: Report }> {
  const { code, out, said } = await runRotunda(build, place, ["doctor", "--json", ...flags]);
  expect(out, said).not.toBe("");
  return { code, report: JSON.parse(out) as Report };
}

test("D6 nothing is wrong: the doctor says what it has looked at", SLOW, async () => {
  const { place } = await conversation();
  const { code, report } = await doctor(place);
  expect(code).toBe(0);
  expect(report.examined).toMatchObject({ responses: 3, damaged: [], pages: [], unreadable: null, audit: null });
  expect(report.findings.find(({ name }) => name === "database")).toMatchObject({ state: "ok" });
});

test(
  "D6 an item that was changed: found, taken out, kept aside; the conversation goes on before it",
  SLOW,
  async () => {
    const { place, ids } = await conversation();
    const [first = "", second = "", third = ""] = ids;
    query(
      place,
      `UPDATE entries SET item = replace(item, 'question 2', 'question 9')
     WHERE key >> 24 = (SELECT number FROM responses WHERE id = ?)`,
      third,
    );
    const found = await doctor(place);
    expect(found.code).toBe(1);
    expect(found.report.examined.damaged).toEqual([
      { id: third, why: "its content does not match its hash", logOnly: false },
    ]);
    expect(found.report.findings.find(({ text }) => text.includes(third))?.remedy).toContain("--repair");
    const mended = await doctor(place, "--repair");
    expect(mended.code).toBe(0);
    expect(mended.report.repaired).toMatchObject({ quarantined: [{ id: third }], logs: [], vouched: [] });
    expect(mended.report.repaired?.moved).toHaveLength(1);
    const [kept = ""] = readdirSync(join(place.state, "quarantine"));
    expect(readFileSync(join(place.state, "quarantine", kept), "utf8")).toContain("question 9");
    expect(query(place, "SELECT head FROM conversations")).toEqual([{ head: second }]);
    const next = await runRotunda(build, place, ["chat", "--conversation", "talk", "and now?"]);
    expect([next.code, next.out]).toEqual([0, expect.stringContaining("three")]);
    expect((await runRotunda(build, place, ["show", first])).code).toBe(0);
    expect((await doctor(place)).code).toBe(0);
  },
);

test("D6 a hash alone that is wrong: the response below it vouches, and nothing is taken out", SLOW, async () => {
  const { place, ids } = await conversation();
  query(place, "UPDATE responses SET hash = 'f' || substr(hash, 2) WHERE id = ?", ids[1] ?? "");
  query(place, "UPDATE responses SET hash = 'e' || substr(hash, 2) WHERE id = ? AND hash LIKE 'f%'", ids[1] ?? "");
  expect((await doctor(place)).code).toBe(1);
  const { code, report } = await doctor(place, "--repair");
  expect([code, report.repaired]).toMatchObject([0, { quarantined: [], vouched: [ids[1]], moved: [] }]);
});

test("D6 a log that says something else than its items is put together anew", SLOW, async () => {
  const { place, ids } = await conversation();
  query(place, "UPDATE events SET body = replace(body, 'two', 'too')");
  const found = await doctor(place);
  expect(found.report.examined.damaged.map(({ id, logOnly }) => [id, logOnly])).toEqual(ids.map((id) => [id, true]));
  const { code, report } = await doctor(place, "--repair");
  expect([code, report.repaired]).toMatchObject([0, { quarantined: [], logs: ids }]);
});

test("D6 nothing is repaired under a server that runs", SLOW, async () => {
  const { place } = await conversation();
  const server = await Server.on({ build, place });
  later(() => server.signal("SIGKILL"));
  await server.start();
  expect((await doctor(place)).code).toBe(0);
  const refused = await runRotunda(build, place, ["doctor", "--repair"]);
  expect([refused.code, refused.said]).toEqual([1, expect.stringContaining("is in use")]);
  expect(existsSync(join(place.state, "quarantine"))).toBe(false);
  expect((await server.stop("SIGTERM")).code).toBe(0);
});
