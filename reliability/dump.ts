/**
 * `node reliability/dump.ts > reliability/data/schema-N.jsonl`: rows of a database that the code of this moment has
 * made, one JSON object a line. Made once for each schema, before the next step is added; part `upgrade` starts from it.
 *
 * Invariant: what names the machine (processes) is replaced; everything that hashes cover is as the code wrote it.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeBuild } from "./build.ts";
import { Client } from "./client.ts";
import { question, startEndpoint } from "./endpoint.ts";
import { History } from "./history.ts";
import { Load } from "./load.ts";
import { Chance } from "./part.ts";
import { eventually, makePlace, Server } from "./server.ts";

const build = await makeBuild();
const endpoint = await startEndpoint();
const place = makePlace({ build, endpoint: endpoint.url });
const server = await Server.on({ build, place });
const history = new History(join(place.folder, "history.jsonl"));
const client = new Client(() => [server], new Chance(1));
const load = new Load({ client, history, chance: new Chance(1), name: "dump" });
await server.start();
for (const kind of ["stream", "background", "effects", "approval", "turns", "turns", "chat"]) await load.once(kind);
// What a crash leaves: one that speaks, one that waits for a person.
const body = (wish: Parameters<typeof question>[0]) => ({
  model: "test-model",
  input: question(wish),
  background: true,
});
await client.ask("/v1/responses", { body: body({ words: 500, delay: 20 }), key: "speaks" });
await client.ask("/v1/responses", {
  body: body({ calls: [["counter__append_asked", { line: "never" }]] }),
  key: "waits",
});
await eventually(async () => {
  const { json } = await client.ask("/v1/tool-approvals");
  return (json as { approvals: unknown[] }).approvals.length > 0;
});
await server.stop("SIGKILL");
await endpoint.close();

const db = new DatabaseSync(place.database);
const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").all();
for (const { name } of tables) {
  for (const row of db.prepare(`SELECT * FROM "${String(name)}"`).all()) {
    const clean = { ...row };
    for (const column of ["process", "writer"])
      if (typeof clean[column] === "string") clean[column] = "gone/1/1/aaaaaaaa";
    process.stdout.write(`${JSON.stringify({ table: name, row: clean })}\n`);
  }
}
db.close();
place.remove();
build.remove();
