/** kill -9 of ours while an agent works: nothing of it is left, nothing runs twice, and the response goes on. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { processesOf } from "../agents/processes.ts";
import { openApp } from "../app/support.ts";
import { eventually } from "../util/processes.ts";
import { calls, claudeBench, killed } from "./agent-bench.ts";

test("B14 B16 kill -9 in the middle of a tool: the tree dies, and the outcome is unknown", async () => {
  const bench = await claudeBench({ config: { permissions: { mode: "auto" } } });
  const { here, app } = bench;
  const file = join(here.workspace, "made.txt");
  const input = "[run echo first] [run echo x >> made.txt; sleep 1000]";
  const id = await killed(bench.here, input, () => existsSync(file));
  expect(await eventually(() => processesOf(here).length === 0)).toBe(true);
  await app.engine.resume(id);
  await app.engine.wait(id);
  const ended = await app.engine.get(id);
  expect(ended).toMatchObject({ status: "completed", error: null });
  expect(calls(ended)).toMatchObject([
    { status: "completed", output: "first" },
    { status: "incomplete", error: expect.stringContaining("outcome unknown") },
  ]);
  // It was not run again by anybody, and the agent was told.
  expect(readFileSync(file, "utf8")).toBe("x\n");
  expect(app.engine.textOf(ended)).toContain("outcome unknown");
});

test("kill -9 while it only speaks: what was told stays, and it is asked again", async () => {
  const bench = await claudeBench();
  const { app, here, home } = bench;
  const id = await killed(bench.here, "hang sleep 1000", () => existsSync(join(home, "starts.jsonl")));
  expect(await eventually(() => processesOf(here).length === 0)).toBe(true);
  appendFileSync(join(home, "patient"), "");
  await app.engine.resume(id);
  await app.engine.wait(id);
  expect(await app.engine.get(id)).toMatchObject({ status: "completed" });
});

test("kill -9 while a person is asked: the question stands, and the answer is carried out once", async () => {
  const bench = await claudeBench();
  const { app, here } = bench;
  const pending = () => app.store.approvals({ status: "pending" });
  const id = await killed(bench.here, "[ask echo x >> made.txt]", async () => (await pending()).length > 0);
  expect(await eventually(() => processesOf(here).length === 0)).toBe(true);
  const [approval] = await pending();
  await app.engine.decide(approval?.id ?? "", { decision: "allow", by: "test" });
  await app.engine.goOn(approval?.id ?? "");
  await app.engine.wait(id);
  const ended = await app.engine.get(id);
  expect(ended).toMatchObject({ status: "completed" });
  expect(calls(ended).map(({ status }) => status)).toEqual(["incomplete", "completed"]);
  expect(readFileSync(join(here.workspace, "made.txt"), "utf8")).toBe("x\n");
});

test("a shutdown in the middle of a tool: whoever goes on tells the agent that the outcome is unknown", async () => {
  const { app, here } = await claudeBench({ config: { permissions: { mode: "auto" } } });
  const file = join(here.workspace, "made.txt");
  const { id } = await app.engine.start({
    input: "[run echo x >> made.txt; sleep 1000]",
    model: "claude-code",
    workspace: app.workspace,
    door: "test",
  });
  expect(await eventually(() => existsSync(file))).toBe(true);
  await app.engine.stop();
  expect(processesOf(here)).toEqual([]);
  const again = await openApp(here);
  expect((await again.store.node(id))?.status).toBe("in_progress");
  await again.engine.resume(id);
  await again.engine.wait(id);
  const ended = await again.engine.get(id);
  expect(ended.status).toBe("completed");
  expect(calls(ended)).toMatchObject([{ status: "incomplete", error: expect.stringContaining("outcome unknown") }]);
  expect(again.engine.textOf(ended)).toContain("outcome unknown");
  expect(readFileSync(file, "utf8")).toBe("x\n");
});
