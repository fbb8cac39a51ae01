/**
 * The process that is killed. Arguments: one JSON object, see `ChildOptions`.
 *
 * It writes what it was told, as it is told, to the observed file: that is what a client has seen.
 */
import { appendFileSync } from "node:fs";
import { createApp } from "../../src/app.ts";
import { type Config, DEFAULT_SERVER } from "../../src/types/config.ts";

export interface ChildOptions {
  workspace: string;
  state: string;
  /** postgres://…; else SQLite in `state`. */
  database?: string;
  upstream: string;
  observed: string;
  counterServer: string;
  /** Kill at this commit (from 1); 0: never. */
  killAt: number;
  moment: "before" | "after";
  resume: boolean;
  /** Deltas share rows in the tail from so many responses on; 0: always. */
  crowd?: number;
}

const options = JSON.parse(process.argv[2] ?? "{}") as ChildOptions;
const { workspace, state, upstream, observed } = options;

let commits = 0;
const probe = (moment: "before" | "after") => {
  if (moment === "before") commits++;
  if (commits === options.killAt && moment === options.moment) process.kill(process.pid, "SIGKILL");
};

const config: Config = {
  ...(options.database !== undefined && { database: options.database }),
  models: [{ id: "main", baseUrl: upstream, model: "test-model", apiKey: "test-key-123", origin: "config" }],
  servers: [
    {
      name: "counter",
      transport: "stdio",
      command: process.execPath,
      args: [options.counterServer],
      disabled: false,
      origin: "test",
    },
  ],
  profiles: {},
  mcp: { oldNames: false },
  defaultProfile: "general",
  permissions: { allow: [], ask: [], deny: [], mode: "auto" },
  hooks: {},
  sandbox: { level: "auto", network: "auto" },
  server: DEFAULT_SERVER,
  disabledTools: [],
  toolOutputLimit: 8_000,
  advice: true,
  warnings: [],
  secrets: ["test-key-123"],
};

const store = { probe, ...(options.crowd !== undefined && { crowd: options.crowd }) };
const app = await createApp({ config, workspace, environment: process.env, stateDirectory: state, store });
const told = (line: object) => appendFileSync(observed, `${JSON.stringify(line)}\n`);
const ids = options.resume
  ? await unfinished()
  : [(await app.engine.start({ input: "Mend the sum.", workspace, door: "test" })).id];
if (!options.resume) told({ acknowledged: ids[0] });
for (const id of ids) {
  if (options.resume) await app.engine.resume(id);
  for await (const event of app.engine.watch(id)) told({ id, event });
  await app.engine.wait(id);
}
await app.close();
told({ commits });

async function unfinished(): Promise<string[]> {
  const open = await app.store.list({ status: ["in_progress", "waiting"] });
  return open.filter((node) => node.caller === null).map((node) => node.id);
}
