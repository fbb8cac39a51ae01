/** What is Postgres's own: its schema, its texts, its errors. */
import { describe, expect, test } from "vitest";
import { openPostgresStore } from "../../src/store/postgres.ts";
import { explainer } from "../../src/store/postgres-connection.ts";
import { migrations } from "../../src/store/postgres-schema.ts";
import { maskSecrets, withoutPassword } from "../../src/util/mask.ts";
import { secretsInUrl } from "../../src/util/secrets.ts";
import { later } from "../support.ts";
import { freshSchema, hasPostgres, query, sharedPostgres } from "../support-postgres.ts";
import { databases, sqlite } from "./databases.ts";
import { fresh } from "./many.ts";
import { runChild } from "./processes.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended, messageEntry, nodeOf } from "./support.ts";

describe.runIf(hasPostgres)("the schema", () => {
  test("eight processes bring an empty database to it at once", async () => {
    const { url } = await sharedPostgres();
    const schema = freshSchema();
    later(async () => void (await query(url, `DROP SCHEMA ${schema} CASCADE`)));
    const work = { url, schema, what: "audits", name: "p", count: 1 } as const;
    const ends = await Promise.all(Array.from({ length: 8 }, () => runChild(work)));
    expect(ends.map(({ said }) => said?.done)).toEqual(Array.from({ length: 8 }, () => true));
    const rows = await query(url, `SELECT number FROM ${schema}.migrations ORDER BY number`);
    expect(rows.map(({ number }) => number)).toEqual(migrations.map((_, index) => index + 1));
    expect(await query(url, `SELECT 1 FROM ${schema}.audit`)).toHaveLength(8);
  });

  test("one of a newer version is refused with the remedy, and left as it is", async () => {
    const { url, schema, open } = await fresh();
    await open();
    await query(url, `INSERT INTO ${schema}.migrations VALUES (999)`);
    const refused = openPostgresStore(url, { schema });
    await expect(refused).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("newer Rotunda"),
      remedy: expect.stringContaining("Upgrade"),
    });
    expect(await query(url, `SELECT max(number) AS last FROM ${schema}.migrations`)).toEqual([{ last: 999 }]);
    await expect(openPostgresStore(url, { schema: 'x"; DROP' })).rejects.toMatchObject({ code: "config_invalid" });
  });

  test("has SQLite's tables with their columns, but for what its file says", async () => {
    const [here, there] = [await fresh(), await sqlite.fresh()];
    await Promise.all([here.open(), there.open()]);
    const columns = (rows: Record<string, unknown>[]) => new Set(rows.map((row) => `${row.name}.${row.column}`));
    const ours = columns(
      await query(
        here.url,
        'SELECT table_name AS name, column_name AS "column" FROM information_schema.columns WHERE table_schema = $1',
        [here.schema],
      ),
    );
    const theirs = columns(
      await there.query(
        `SELECT tables.name AS name, columns.name AS "column" FROM sqlite_master AS tables,
           pragma_table_info(tables.name) AS columns WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%'`,
      ),
    );
    const only = (one: Set<string>, other: Set<string>) => [...one].filter((name) => !other.has(name)).sort();
    expect(only(theirs, ours)).toEqual([
      ...["entries.key", "erasure.done", "erasure.number", "erasure.truncated", "events.key", "responses.lease_until"],
      ...["tail.body", "tail.key", "tail.writer"],
    ]);
    expect(only(ours, theirs)).toEqual([
      ...["entries.cost", "entries.number", "entries.position", "entries.side", "entries.tokens", "events.first"],
      ...[
        "events.number",
        "marks.name",
        "marks.sequence",
        "marks.used",
        "migrations.number",
        "processes.name",
        "processes.until",
        "responses.cost",
        "responses.tokens",
      ],
    ]);
  });

  test("a database of another encoding is refused", async () => {
    const { url, urlOf } = await sharedPostgres();
    const name = freshSchema();
    await query(url, `CREATE DATABASE ${name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`);
    later(async () => void (await query(url, `DROP DATABASE ${name} WITH (FORCE)`)));
    await expect(openPostgresStore(urlOf(name))).rejects.toMatchObject({ remedy: expect.stringContaining("UTF8") });
  });
});

describe.runIf(hasPostgres)("texts", () => {
  const odd = "a\0b \ud800 \u0001 \u{1f600} 'quote' \\ {x,\"y\"} \udfff";

  test("that Postgres cannot hold come back as they were, wherever they stand", async () => {
    const { open } = await fresh();
    const store = await open();
    const conversation = conversationOf({ name: odd, title: odd, workspace: odd, metadata: { [odd]: odd } });
    const idempotency = { key: odd, digest: odd, expiresAt: Date.now() + 60_000 };
    const { node } = await begin(store, { input: odd, conversation, idempotency, workspace: odd });
    const approval = approvalOf(node.id, { arguments: odd, why: odd });
    await store.append(batchOf(node.id, { outputs: [{ itemId: "mcp_odd", text: odd }], approvals: [approval] }), true);
    await store.sendControl({ responseId: node.id, kind: "steer", reason: odd, items: null });
    await store.addRule({ id: "rule_1", scope: "always", holder: odd, rule: odd, createdAt: 1 });
    expect(await store.output("mcp_odd")).toBe(odd);
    expect(await store.conversation(odd)).toMatchObject({
      name: odd,
      title: odd,
      workspace: odd,
      metadata: { [odd]: odd },
    });
    expect(await store.idempotency("local", odd)).toMatchObject({ key: odd, digest: odd, responseId: node.id });
    expect(await store.approval(approval.id)).toEqual(approval);
    expect(await store.takeControls([node.id])).toMatchObject([{ reason: odd }]);
    expect(await store.rules([odd])).toMatchObject([{ holder: odd, rule: odd }]);
    expect(JSON.stringify((await store.get(node.id))?.entries)).toContain(JSON.stringify(odd).slice(1, -1));
    await end(store, node.id, odd);
    expect((await store.get(node.id))?.node).toMatchObject({ status: "completed", workspace: odd });
    expect(JSON.stringify(await store.events(node.id, -1, 10))).toContain(JSON.stringify(odd).slice(1, -1));
    // What cannot be an id is no error of the database's.
    expect(await store.node(odd)).toBeUndefined();
    expect(await store.resolve(odd, ["response", "conversation", "item", "approval"])).toEqual([]);
  });

  test("a response has the same hash on both databases", async () => {
    const stores = await Promise.all(databases.map(async ({ fresh: make }) => (await make()).open()));
    const [node, input] = [nodeOf({ createdAt: 1_700_000_000_000 }), messageEntry("input", "ask\0 \u{1f600}")];
    const answer = messageEntry("output", "say\u2028 it");
    const hashes = await Promise.all(
      stores.map(async (store) => {
        await store.create({ node, input: [input], events: [], process: "h/1/1/x", conversation: null });
        const usage = { ...node.usage, total_tokens: 7, cost: 0.25 };
        const change = { status: "completed" as const, endedAt: 1_700_000_000_500, hash: "due", usage };
        await store.append(batchOf(node.id, { entries: [answer], node: change }), true);
        const child = await ended(store, { id: `resp_${"0".repeat(26)}`, createdAt: 1, previousResponseId: node.id });
        return [(await store.node(node.id))?.hash, (await store.path(child)).length];
      }),
    );
    expect(new Set(hashes.map(([hash]) => hash)).size).toBe(1);
    expect(hashes.map(([, length]) => length)).toEqual(stores.map(() => 2));
  });
});

test("errors of the database are ours: a full disk, a lost connection, a damaged page; no password in any of them", () => {
  const explain = explainer("postgres://u:hunter2%21x@host/db?sslpassword=hunter3xy");
  const fault = (code: string, text: string) => explain(Object.assign(new Error(text), { code }));
  expect(fault("53100", "could not extend file")).toMatchObject({ code: "storage_full", remedy: expect.anything() });
  expect(fault("XX001", "invalid page")).toMatchObject({ code: "storage_damaged" });
  expect(fault("57P01", "terminating")).toMatchObject({ code: "storage_failed", remedy: expect.anything() });
  expect(fault("53300", "too many")).toMatchObject({ remedy: expect.stringContaining("PgBouncer") });
  expect(fault("28P01", "failed")).toMatchObject({ remedy: expect.stringContaining("password") });
  const told = explain(new Error("cannot parse postgres://u:hunter2%21x@host with hunter2!x and hunter3xy"));
  expect(told.message).not.toMatch(/hunter/);
  expect(told.message).toContain("host/db");
  expect(told.cause).toBeUndefined();
});

test.each([
  ["postgres://u:hunter2word@host:5432/db", "hunter2word"],
  ["postgres://u:hunter2word@/db?host=%2Frun%2Fpostgresql", "hunter2word"],
  ["postgres://u:hunter2word@one:5432,two:5432/db", "hunter2word"],
  ["postgres://u:hunter2%40word@[::1]/db", "hunter2@word"],
  ["postgres://u:hunter2@word@host/db", "hunter2@word"],
  ["postgres:///db?host=/tmp&user=u&password=hunter2word", "hunter2word"],
])("the password of %s is known as a secret, and shown nowhere", (address, password) => {
  expect(secretsInUrl(address)).toContain(password);
  expect(withoutPassword(address)).not.toMatch(/hunter2|word@/);
  expect(JSON.stringify(maskSecrets({ database: address }))).not.toContain("hunter2word");
  expect(explainer(address)(new Error(`no way to ${address}`)).message).not.toMatch(/hunter2/);
});
