/** `rotunda export`, `rotunda import FILE` and `rotunda move`, by the built program. */
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { Store } from "../../src/types/store.ts";
import { type Home, home } from "../cli/run.ts";
import { openAt } from "../store/databases.ts";
import { auditOf, conversationOf, ended } from "../store/support.ts";
import { later } from "../support.ts";
import { freshSchema, hasPostgres, query, sharedPostgres } from "../support-postgres.ts";
import { grow, STRANGE, type Tree, view } from "./trees.ts";

async function storeOf(at: Home): Promise<Store> {
  const store = await openSqliteStore(join(at.environment.ROTUNDA_HOME ?? "", "rotunda.db"));
  later(() => store.close().catch(() => undefined));
  return store;
}

async function grown(): Promise<{ at: Home; store: Store; tree: Tree; living: string[] }> {
  const at = home();
  const store = await storeOf(at);
  const tree = await grow(store);
  return { at, store, tree, living: [tree.root, tree.withCall, tree.head, tree.branch, tree.subAgent] };
}

/** An export of a long conversation. */
async function longExport(turns: number): Promise<{ file: string; ids: string[] }> {
  const at = home();
  const store = await storeOf(at);
  const ids: string[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const previousResponseId = ids.at(-1) ?? null;
    ids.push(await ended(store, { previousResponseId }, "x".repeat(2_000)));
  }
  await store.saveConversation(conversationOf({ name: "long", head: ids.at(-1) ?? null }));
  const file = join(at.workspace, "long.jsonl");
  expect((await at.run(["export", "long", "--output", file])).code).toBe(0);
  return { file, ids };
}

/** What an answer, as `--output-format json` gives it, goes on from. */
async function previousOf(at: Home, answer: string): Promise<string | null> {
  const { response_id: id } = JSON.parse(answer) as { response_id: string };
  const shown = JSON.parse((await at.run(["show", id, "--json"])).out) as { previousResponseId: string | null };
  return shown.previousResponseId;
}

const linesOf = (file: string) => readFileSync(file, "utf8").split("\n").filter(Boolean);

describe("export and import", () => {
  test("G18 everything to a file and into another machine's database, where it goes on; again, and nothing is added", async () => {
    const { at, store, tree, living } = await grown();
    await store.audit(auditOf(`what ${STRANGE}`));
    const before = await view(store, living);
    const written = await at.run(["export", "--all", "--output", "all.jsonl", "--json"]);
    expect(written.code).toBe(0);
    expect(JSON.parse(written.out)).toMatchObject({ responses: 7, conversations: 2, left_count: 3 });
    const file = join(at.workspace, "all.jsonl");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(linesOf(file)[0]).toContain('{"rotunda":"export","version":1');
    expect(readdirSync(at.workspace)).toEqual(["all.jsonl"]);

    const other = home();
    const dry = await other.run(["import", file, "--dry-run"]);
    expect(dry).toMatchObject({ code: 0, err: "Nothing was written.\n" });
    expect(dry.out).toContain("+ 7 responses\n");
    const took = await other.run(["import", file]);
    expect(took).toMatchObject({ code: 0, err: "Imported.\n" });
    expect(took.out).toBe("+ 7 responses\n+ 2 conversations\n+ 2 records of the audit log\n");
    const again = await other.run(["import", file, "--json"]);
    expect(JSON.parse(again.out)).toMatchObject({
      responses: { pasted: 0, known: 7 },
      conversations: { pasted: 0, known: 2 },
      audit: { pasted: 0, known: 2 },
      left: [],
    });
    expect(await view(await storeOf(other), living)).toEqual(before);
    const { out, code } = await other.run(["chat", "--conversation", "work", "--output-format", "json", "On"]);
    expect({ code, previous: await previousOf(other, out) }).toEqual({ code: 0, previous: tree.head });
    const doctor = JSON.parse((await other.run(["doctor", "--json"])).out) as { examined: object };
    expect(doctor.examined).toMatchObject({ responses: 8, damaged: [], rows: [], pages: [], audit: null });
    expect((await other.run(["audit", "verify"])).code).toBe(0);
  });

  test("one conversation, from stdout to stdin", async () => {
    const { at, tree } = await grown();
    const written = await at.run(["export", tree.head.slice(-8)]);
    expect(written.err).toContain("5 responses, 1 conversation");
    const other = home();
    const took = await other.run(["import", "-"], { input: written.out });
    expect(took.out).toBe("+ 5 responses\n+ 1 conversation\n");
    expect(await (await storeOf(other)).node(tree.branch)).toBeUndefined();
    const whole = await at.run(["export", "work", "--tree"]);
    expect((await other.run(["import", "-"], { input: whole.out })).out).toContain(
      "+ 2 responses (5 were here already)",
    );
  });

  test("tokens come along with everything, unless only the content is wanted", async () => {
    const at = home();
    await at.run(["token", "add", "phone"]);
    expect((await at.run(["export", "--all", "--output", "all.jsonl"])).code).toBe(0);
    const file = join(at.workspace, "all.jsonl");
    const other = home();
    expect((await other.run(["import", file, "--content-only"])).out).toBe("");
    expect((await other.run(["token", "list", "--json"])).out).toBe("[]\n");
    expect((await other.run(["import", file])).out).toContain("+ 1 token");
    expect(JSON.parse((await other.run(["token", "list", "--json"])).out)).toMatchObject([{ name: "phone" }]);
    expect((await other.run(["audit"])).out).toContain("rotunda export");
  });

  test("what is wrong is said, and nothing is left behind", async () => {
    const at = home();
    expect((await at.run(["export"])).err).toContain("no conversation in this directory");
    expect((await at.run(["export", "nobody", "--output", "x"])).code).toBe(2);
    expect((await at.run(["export", "--all", "--output", "no/such/folder/x"])).err).toContain("cannot be written");
    expect((await at.run(["export", "--all", "--tree"])).code).toBe(2);
    writeFileSync(join(at.workspace, "newer"), '{"rotunda":"export","version":9}\n');
    expect((await at.run(["import", "newer"])).err).toContain("newer Rotunda");
    expect((await at.run(["import", "-"], { input: "hello\n" })).code).toBe(1);
    expect((await at.run(["move", "--from", "nothing.db", "--to", "x.db"])).err).toContain("there is no database");
    expect(existsSync(join(at.workspace, "x.db"))).toBe(false);
  });
});

describe("a file that is not what was written", () => {
  test("G18 one flipped byte anywhere is refused and named; everything before it is there, nothing after it", async () => {
    const { file, ids } = await longExport(8);
    const bytes = readFileSync(file);
    const lines = linesOf(file);
    const half = bytes.length >> 1;
    // In the header, in an item, in a log, in a digest, in the last line.
    const places = [
      bytes.indexOf('"at"') + 9,
      bytes.indexOf("xxxx", half),
      bytes.indexOf('"events"', half) + 40,
      bytes.lastIndexOf('{"digest"') + 30,
      bytes.length - 4,
    ];
    for (const place of places) {
      const flipped = Buffer.from(bytes);
      flipped[place] = (flipped[place] ?? 0) ^ 1;
      const bad = `${file}.bad`;
      writeFileSync(bad, flipped);
      const number = bytes.subarray(0, place).filter((byte) => byte === 10).length + 1;
      const other = home();
      const { code, err } = await other.run(["import", bad]);
      // What was changed in the header shows at the next line.
      const found = number === 1 ? 2 : number;
      expect({ place, code, err }).toMatchObject({ code: 1, err: expect.stringContaining(`line ${found} `) });
      if (found > 1 && found < 10) expect(err).toContain(ids[found - 2]);
      const store = await storeOf(other);
      const there = await store.list({});
      expect(there.map(({ id }) => id)).toEqual(ids.slice(0, found - 2).reverse());
      if (there[0]) await store.path(there[0].id);
    }
    expect(lines).toHaveLength(11);
  });

  test("cut off, shortened by a line, or in another order: refused", async () => {
    const { file } = await longExport(4);
    const bytes = readFileSync(file);
    const lines = linesOf(file);
    const without = (index: number) => lines.filter((_, at) => at !== index);
    const [header = "", first = "", second = "", ...rest] = lines;
    const spoilt = {
      "cut off": bytes.subarray(0, bytes.length - 90),
      "without its end": `${without(6).join("\n")}\n`,
      "without a line": without(3).join("\n"),
      "in another order": [header, second, first, ...rest].join("\n"),
      "with something behind": [...lines, first].join("\n"),
    };
    for (const [name, text] of Object.entries(spoilt)) {
      writeFileSync(file, text);
      const { code, err } = await home().run(["import", file]);
      expect({ name, code, err }).toMatchObject({ code: 1, err: expect.stringMatching(/line \d+/) });
    }
  });

  test("kill -9 in the middle of an import; then again, and it is whole", async () => {
    const { file, ids } = await longExport(1_500);
    const at = home();
    let killed = 0;
    for (let tries = 0; tries < 6 && killed < 3; tries++) {
      const started = at.start(["import", file]);
      const database = join(at.environment.ROTUNDA_HOME ?? "", "rotunda.db-wal");
      while (started.child.exitCode === null && !existsSync(database)) await sleep(2);
      await sleep(20 + 40 * tries);
      started.child.kill("SIGKILL");
      const { signal } = await started.result;
      if (signal === "SIGKILL") killed++;
      const store = await storeOf(at);
      const [newest] = await store.list({ limit: 1 });
      // What is there is whole from the root on.
      if (newest) expect((await store.path(newest.id)).length).toBe(ids.indexOf(newest.id) + 1);
      await store.close();
    }
    expect(killed).toBeGreaterThan(0);
    expect((await at.run(["import", file])).code).toBe(0);
    const store = await storeOf(at);
    expect((await store.path(ids.at(-1) ?? "")).length).toBe(ids.length);
    expect((await store.conversation("long"))?.head).toBe(ids.at(-1));
  });
});

describe("move", () => {
  test("to another file: verified, told, and the source stays as it was", async () => {
    const { at, store, living } = await grown();
    const before = await view(store, living);
    const { code, out, err } = await at.run(["move", "--to", "copy.db"]);
    expect(code).toBe(0);
    expect(out).toContain("+ 7 responses\n+ 2 conversations\n");
    expect(out).toContain("it has not ended (it is in_progress)");
    expect(err).toContain("7 were read back");
    expect(err).toContain("rotunda move --from copy.db --to sqlite");
    const other = await openSqliteStore(join(at.workspace, "copy.db"));
    later(() => other.close());
    expect(await view(other, living)).toEqual(before);
    expect(await view(store, living)).toEqual(before);
    expect(statSync(join(at.workspace, "copy.db")).mode & 0o077).toBe(0);
    chmodSync(join(at.workspace, "copy.db"), 0o600);
  });

  test.skipIf(!hasPostgres)("G18 SQLite to Postgres in one command, and a conversation back", async () => {
    const { at, store, tree, living } = await grown();
    const schema = freshSchema();
    const { url } = await sharedPostgres();
    later(async () => void (await query(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)));
    const address = `${url}${url.includes("?") ? "&" : "?"}schema=${schema}`;
    const { code, out, err } = await at.run(["move", "--to", address, "--json"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out)).toMatchObject({ responses: { pasted: 7 }, verified: 7, left_count: 3 });
    const postgres = await openAt({ url, schema });
    later(() => postgres.close());
    expect(await view(postgres, living)).toEqual(await view(store, living));
    const there = home({ ROTUNDA_DATABASE: address });
    const said = await there.run(["chat", "--conversation", "work", "--output-format", "json", "On"]);
    expect(await previousOf(there, said.out)).toBe(tree.head);
    const back = home();
    const moved = await back.run(["move", "work", "--from", address, "--to", "sqlite"]);
    expect(moved.out).toBe("+ 6 responses\n+ 1 conversation\n");
    expect(moved.err).not.toContain("secret-of-tests");
    // What it says to set must be something that can be set.
    expect(moved.err).toContain("take `database:` (or ROTUNDA_DATABASE) out");
    expect(moved.err).not.toContain("database: sqlite");
    const copied = await storeOf(back);
    const { response_id: id } = JSON.parse(said.out);
    expect((await copied.conversation("work"))?.head).toBe(id);
    expect((await copied.node(id))?.hash).toBe((await postgres.node(id))?.hash);
  });
});
