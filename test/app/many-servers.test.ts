/** 30 servers with 40 tools each: what a prompt, a start and 20 runs at once cost. */
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JsonObject } from "../../src/types/json.ts";
import { count, hostileScript, processesWith, readLines } from "../hub/support.ts";
import { callOf, modelOf, say } from "../support.ts";
import { openApp, place } from "./support.ts";

const SERVERS = 30;
const TOOLS = 40;

function toolsOf(server: number): JsonObject[] {
  return Array.from({ length: TOOLS }, (_, at) => ({
    name: at === 0 ? "echo" : `operation_${at}_of_${server}`,
    description: `Operation ${at} of server ${server}: reads, changes and lists what this server knows about.`,
    inputSchema: {
      type: "object",
      properties: {
        text: { type: "string", description: "What it is about, in words of your own" },
        limit: { type: "integer", minimum: 1, maximum: 100, description: "How many are wanted" },
        filter: {
          type: "object",
          properties: { state: { enum: ["open", "closed", "all"] }, since: { type: "string" } },
        },
      },
      required: ["text"],
    },
  }));
}

test("B12 30 servers of 40 tools: a small prompt, no process at the start, one for each server in 20 runs", async () => {
  const here = place();
  const mcpServers: JsonObject = {};
  for (let server = 0; server < SERVERS; server++) {
    here.put(`tools-${server}.json`, toolsOf(server));
    const journal = join(here.root, `s${server}.journal`);
    const options = { mode: "none", journal, tools: join(here.root, `tools-${server}.json`) };
    mcpServers[`s${server}`] = {
      command: process.execPath,
      args: [hostileScript, JSON.stringify(options), `marker=${here.root}`],
      startTimeout: 60,
      tools: { echo: { access: "read" } },
    };
  }
  here.put("home/.config/rotunda/rotunda.json", { mcpServers });

  const first = await openApp(here);
  expect((await first.engine.tools()).filter(({ server }) => server !== "rotunda")).toHaveLength(SERVERS * TOOLS);
  await (await first.hub())?.close();
  expect(processesWith(here.root)).toEqual([]);

  // Remembered lists: everything is known, and nothing runs.
  const search = callOf(["tool_search", { query: "echo s7", limit: 20 }]);
  const echo = callOf(["s7__echo", { text: "hello" }], ["s8__echo", { text: "hello" }]);
  const model = modelOf([
    ({ history }) => {
      const calls = history.at(-1)?.entries.filter(({ item }) => item.type === "mcp_call").length ?? 0;
      return calls === 0 ? search : calls === 1 ? echo : say("done");
    },
  ]);
  const app = await openApp(here, [model]);
  expect((await app.engine.tools()).length).toBeGreaterThan(SERVERS * TOOLS);
  expect((await app.hub())?.servers().filter(({ state }) => state === "known")).toHaveLength(SERVERS);
  expect(processesWith(here.root)).toEqual([]);

  const begin = () => app.engine.start({ input: "go", door: "test", workspace: here.workspace });
  const started = await Promise.all(Array.from({ length: 20 }, begin));
  const ended = await Promise.all(started.map(({ id }) => app.engine.wait(id)));
  expect(ended.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => "completed"));
  for (const { id } of started) {
    const { output } = await app.engine.get(id);
    const outputs = output.flatMap((item) => (item.type === "mcp_call" ? [item.output] : []));
    expect(outputs.slice(1)).toEqual(["hello", "hello"]);
  }
  const connected = (await app.hub())?.servers().filter((server) => server.connected);
  expect(connected?.map(({ name }) => name)).toEqual(["s7", "s8"]);
  const starts = (server: string) => count(readLines(join(here.root, `${server}.journal`)), "start");
  // One start to list them the first time, and one for all of the 20 runs.
  expect([starts("s7"), starts("s8"), starts("s9")]).toEqual([2, 2, 1]);

  const tokens = model.requests.map(({ tools }) => Math.ceil(JSON.stringify(tools).length / 4));
  expect(Math.min(...tokens)).toBeGreaterThan(1000);
  expect(tokens[0]).toBeLessThanOrEqual(3000);
}, 120_000);
