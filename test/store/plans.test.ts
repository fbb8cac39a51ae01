/** Every listing runs on an index, however much there is. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { conversationsQuery as conversationsOnPostgres } from "../../src/store/postgres-conversations.ts";
import { listQuery as listOnPostgres } from "../../src/store/postgres-tree.ts";
import { conversationsQuery } from "../../src/store/sqlite-conversations.ts";
import { listQuery } from "../../src/store/sqlite-tree.ts";
import { temporaryFolder, temporaryStore } from "../support.ts";
import { hasPostgres, query } from "../support-postgres.ts";
import { postgres } from "./databases.ts";
import { planOf } from "./support.ts";

test("on SQLite", async () => {
  const folder = temporaryFolder();
  await temporaryStore({}, folder);
  const file = join(folder, "rotunda.db");
  const plan = (filter: Parameters<typeof listQuery>[0]) => {
    const { sql, parameters } = listQuery(filter);
    return planOf(file, sql, parameters);
  };
  const own = plan({ owner: "alice", before: "resp_x" });
  expect(own).toMatch(/SEARCH responses USING INDEX responses_owner \(owner=\?/);
  expect(own).not.toContain("TEMP B-TREE");
  expect(plan({ owner: "alice", previousResponseId: "resp_x" })).toContain("INDEX responses_previous");
  expect(plan({ owner: "alice", callerResponseId: "resp_x" })).toContain("INDEX responses_caller");
  expect(plan({ owner: "alice", status: ["in_progress", "waiting"] })).toContain("INDEX responses_open");
  expect(plan({ before: "resp_x" })).toMatch(/SEARCH responses USING INTEGER PRIMARY KEY \(rowid<\?\)/);
  expect(plan({})).not.toContain("TEMP B-TREE");
  for (const before of [undefined, { updated_at: 5, id: "conv_x" }]) {
    const { sql, parameters } = conversationsQuery({ owner: "alice", limit: 20 }, before);
    const conversations = planOf(file, sql, parameters);
    expect(conversations).toMatch(/SEARCH conversations USING INDEX conversations_used \(owner=\?/);
    expect(conversations).not.toContain("TEMP B-TREE");
  }
});

test.runIf(hasPostgres)("on Postgres", async () => {
  const { place, open } = await postgres.fresh();
  await open();
  const { url, schema } = place as { url: string; schema: string };
  // With many responses, few of them open, as a database is after a while.
  await query(
    url,
    `INSERT INTO ${schema}.responses (id, owner, previous_response_id, caller_response_id, status, body, fence, tokens,
       cost, created_at, ended_at)
     SELECT 'resp_' || n, CASE n % 50 WHEN 0 THEN 'alice' ELSE 'local' END, 'resp_' || n / 2,
       CASE n % 10 WHEN 0 THEN 'resp_' || n / 3 END, CASE n % 500 WHEN 0 THEN 'in_progress' ELSE 'completed' END, '{}', 1,
       0, 0, n, CASE n % 500 WHEN 0 THEN NULL ELSE n END
     FROM generate_series(1, 50000) AS n`,
  );
  await query(
    url,
    `INSERT INTO ${schema}.conversations (id, owner, title, borrowed, workspace, metadata, created_at, updated_at)
     SELECT 'conv_' || n, CASE n % 50 WHEN 0 THEN 'alice' ELSE 'local' END, '', 0, '', '{}', n, n
     FROM generate_series(1, 20000) AS n`,
  );
  await query(url, `ANALYZE ${schema}.responses, ${schema}.conversations`);
  const explain = async ({ sql, parameters }: { sql: string; parameters: unknown[] }) => {
    const text = sql.replace(/\{(\w+)\}/g, `${schema}.$1`);
    const rows = await query(url, `EXPLAIN ${text}`, parameters);
    return rows.map((row) => String(row["QUERY PLAN"])).join("\n");
  };
  const plan = (filter: Parameters<typeof listOnPostgres>[0]) => explain(listOnPostgres({ limit: 20, ...filter }));
  const own = await plan({ owner: "alice", before: "resp_40000" });
  expect(own).toContain("responses_owner");
  expect(own).not.toContain("Sort");
  expect(await plan({ owner: "alice", previousResponseId: "resp_x" })).toContain("responses_previous");
  expect(await plan({ owner: "alice", callerResponseId: "resp_x" })).toContain("responses_caller");
  expect(await plan({ owner: "alice", status: ["in_progress", "waiting"] })).toContain("responses_open");
  expect(await plan({ before: "resp_40000" })).toContain("responses_pkey");
  expect(await plan({})).not.toContain("Sort");
  for (const before of [undefined, { updated_at: 5, id: "conv_x" }]) {
    const conversations = await explain(conversationsOnPostgres({ owner: "alice", limit: 20 }, before));
    expect(conversations).toContain("conversations_used");
    expect(conversations).not.toContain("Sort");
  }
  const ending = `SELECT id FROM {responses} WHERE reverse(id) >= $1 AND reverse(id) < $2`;
  expect(await explain({ sql: ending, parameters: ["0004", "0004\u007f"] })).toContain("responses_ending");
});
