/**
 * The main job, by the built program: one turn reads, greps, edits, runs the tests of a small repository,
 * writes through the real filesystem server, delegates to an explore sub-agent and answers.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream, type UpstreamRequest, type UpstreamStep } from "../../src/testing/upstream.ts";
import type { FullResponse } from "../../src/types/response.ts";
import { ANSWER, makeRepository, referenceScript } from "../crash/reference.ts";
import { later } from "../support.ts";
import { home } from "./run.ts";

test("one turn does it all; log shows the tree, show every item, --from branches it", async () => {
  const { workspace, run } = home();
  makeRepository(workspace);
  const script = (request: UpstreamRequest): UpstreamStep => {
    const step = referenceScript(request);
    if (!("calls" in step) || step.calls?.[0]?.name !== "counter__append") return step;
    return {
      calls: [{ name: "files__write_file", arguments: { path: join(workspace, "report.md"), content: "# Done\n" } }],
    };
  };
  const up = await startUpstream(script);
  later(() => up.close());
  const server = join(import.meta.dirname, "..", "..", "node_modules", ".bin", "mcp-server-filesystem");
  const config = {
    models: [{ id: "main", baseUrl: up.url, model: "test-model", apiKey: "${TEST_KEY:-test-key-1}" }],
    mcpServers: { files: { command: process.execPath, args: [server, workspace] } },
    permissions: { mode: "auto" },
  };
  writeFileSync(join(workspace, "..", "config.json"), JSON.stringify(config));
  const flags = ["--config", "../config.json"];
  const { code, out, err } = await run(["chat", ...flags, "Mend the sum."]);
  expect(up.refusals).toEqual([]);
  expect({ code, err }).toMatchObject({ code: 0 });
  expect(out).toContain(ANSWER);
  expect(readFileSync(join(workspace, "sum.js"), "utf8")).toContain("a + b");
  expect(readFileSync(join(workspace, "effects.log"), "utf8")).toBe("ran\n");
  expect(readFileSync(join(workspace, "report.md"), "utf8")).toBe("# Done\n");

  const id = /Response ID: (resp_\w+)/.exec(err)?.[1] ?? "";
  const outline = (await run(["log", id])).out.trimEnd().split("\n");
  expect(outline).toHaveLength(3);
  expect(outline[2]).toMatch(/in all: [\d,]+ tokens/);
  expect(outline[0]).toContain(`* ${id.slice(-8)}  general  main  completed  "Mend the sum."`);
  expect(outline[1]).toMatch(/↳ explore {2}main {2}completed {2}"Look for tests"/);
  const full = JSON.parse((await run(["show", id, "--json"])).out) as FullResponse;
  expect(full.output.map((item) => (item.type === "mcp_call" ? item.name : item.type))).toEqual([
    "reasoning",
    "message",
    "read",
    "grep",
    "edit",
    "bash",
    "write_file",
    "task",
    "message",
  ]);
  const shown = (await run(["show", id])).out;
  for (const part of ["I should look first", "TODO mend this", "pass 1", ANSWER]) expect(shown).toContain(part);

  const branch = await run(["chat", ...flags, "--from", id.slice(-6), "--output-format", "json", "Say it again."]);
  expect(JSON.parse(branch.out)).toMatchObject({ status: "completed", output_text: ANSWER });
  expect((await run(["log", id])).out.trimEnd().split("\n")).toHaveLength(4);
});
