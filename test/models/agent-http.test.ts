/** An external agent behind the HTTP door: as a chat completion, as a response with a question, in the list of models. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { eventsOf, serve } from "../http/served.ts";
import { temporaryFolder } from "../support.ts";
import { program } from "./agent-bench.ts";

async function served() {
  const folder = temporaryFolder();
  const command = program({ root: folder } as Parameters<typeof program>[0], "claude", "bin/claude");
  return serve([{ text: "from http" }], { folder, config: { agents: { "claude-code": { command } } } });
}

test("C5 chat completions stream it, and models list it", async () => {
  const { fetch } = await served();
  const models = (await (await fetch("/v1/models")).json()) as { data: { id: string }[] };
  expect(models.data.map(({ id }) => id)).toContain("claude-code");
  const json = { model: "claude-code", stream: true, messages: [{ role: "user", content: "one two" }] };
  const events = await eventsOf(await fetch("/v1/chat/completions", { json }));
  const deltas = events.flatMap(({ data }) => {
    const { choices = [] } = data as { choices?: { delta?: { content?: string } }[] };
    return choices.flatMap(({ delta }) => delta?.content ?? []);
  });
  expect(deltas.join("")).toContain('heard: ["one two"]');
  expect(events.at(-1)?.data).toBe("[DONE]");
});

test("a response waits with its agent, and goes on by an approval from another door", async () => {
  const { app, fetch, workspace } = await served();
  const json = { model: "claude-code", input: "[ask echo x >> made.txt]", background: true };
  const { id } = (await (await fetch("/v1/responses", { json })).json()) as { id: string };
  let [approval] = await app.store.approvals({ status: "pending" });
  while (!approval) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    [approval] = await app.store.approvals({ status: "pending" });
  }
  const settled = await fetch("/v1/tool-approval", { json: { approvalId: approval.id, approved: true } });
  expect(settled.status).toBeLessThan(300);
  await app.engine.wait(id);
  const ended = await app.engine.get(id);
  expect(ended.status).toBe("completed");
  // The same process went on: the call was made once.
  expect(ended.output.filter(({ type }) => type === "mcp_call")).toMatchObject([{ status: "completed" }]);
  expect(readFileSync(join(workspace, "made.txt"), "utf8")).toBe("x\n");
});
