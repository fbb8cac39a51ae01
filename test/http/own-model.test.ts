/** A server that is configured as its own model; and a configuration that changes under a server. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";
import { startServer } from "./process.ts";
import { serve } from "./served.ts";

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));

test("a model whose address is the server itself fails at once, and one question stays one", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const self = { id: "self", baseUrl: `${served.url}/v1`, apiKey: served.token };
  writeFileSync(join(served.folder, "rotunda.yaml"), JSON.stringify({ models: [self] }));
  await served.app.reload();
  const answer = await served.fetch("/v1/chat/completions", {
    json: { model: "self", messages: [{ role: "user", content: "hi" }] },
  });
  expect(answer.status).toBe(502);
  expect(JSON.stringify(await answer.json())).toContain("its own model");
  expect(await served.app.store.list({})).toHaveLength(1);
});

test("the server's own token in OPENAI_API_KEY makes no model of it", async () => {
  const upstream = await startUpstream(() => ({ text: "ok" }));
  later(() => upstream.close());
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url);
  const { PATH = "" } = process.env;
  const env = {
    PATH,
    HOME: folder,
    ROTUNDA_HOME: join(folder, "state"),
    OPENAI_BASE_URL: `${server.url}/v1`,
    OPENAI_API_KEY: server.token,
  };
  const listed = spawnSync(process.execPath, [program, "models", "--json"], { cwd: folder, env, encoding: "utf8" });
  const models = JSON.parse(listed.stdout) as { id: string }[];
  expect(models.some(({ id }) => id.startsWith("openai/"))).toBe(false);
});

test("a changed file is in force within seconds; one that cannot be read leaves all as it was", async () => {
  const upstream = await startUpstream(() => ({ text: "ok" }));
  later(() => upstream.close());
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url);
  const file = join(folder, "rotunda.yaml");
  const before = readFileSync(file, "utf8");
  const models = async () => {
    const answer = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${server.token}` } });
    return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
  };
  const until = async (id: string) => {
    for (let tries = 0; tries < 200 && !(await models()).includes(id); tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return models();
  };
  writeFileSync(file, before.replace("test-model", "renamed-model"));
  expect(await until("renamed-model")).toContain("renamed-model");
  writeFileSync(file, "models: [");
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(await models()).toContain("renamed-model");
});
