/**
 * `npm run conformance:server`: the server that the conformance suite of MCP tests, on the product's own stack.
 *
 * Invariant: everything but the tools, resources and prompts themselves is the HTTP door and the MCP door as shipped.
 * Honours PORT (default: any that is free); prints an address that ends in `/mcp`; ends at SIGTERM.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApp } from "../src/app.ts";
import { loadConfig } from "../src/config/load.ts";
import { createHttpDoor } from "../src/doors/http/server.ts";
import { Endpoint } from "../src/doors/mcp/endpoint.ts";
import { conformanceServer } from "../test/fixtures/conformance/server.ts";

const folder = mkdtempSync(join(tmpdir(), "rotunda-conformance-"));
const environment = { PATH: process.env.PATH ?? "", HOME: folder, ROTUNDA_HOME: join(folder, "state") };
const app = await createApp({
  config: await loadConfig({ workspace: folder, environment }),
  workspace: folder,
  environment,
});
const endpoint: Endpoint = await Endpoint.create({
  key: randomBytes(32),
  sessions: "all",
  factory: ({ era }) =>
    conformanceServer(era, {
      tools: () => endpoint.notify.toolsChanged(),
      prompts: () => endpoint.notify.promptsChanged(),
    }),
});
const door = createHttpDoor(app, {
  port: Number(process.env.PORT ?? 0),
  auth: "none",
  accessLog: false,
  mcp: async () => ({
    answer: async (_name, request) => endpoint.answer(request),
    leave: () => undefined,
    close: () => endpoint.close(),
  }),
});
process.stdout.write(`${await door.listen()}/mcp\n`);

const end = async () => {
  await endpoint.close();
  await door.close({ seconds: 0 });
  await app.close();
  rmSync(folder, { recursive: true, force: true });
  process.exit(0);
};
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void end());
