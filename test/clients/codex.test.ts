/**
 * A real Codex against the Responses door. Opt-in, as it is large: install `@openai/codex` somewhere and set
 * ROTUNDA_TEST_CODEX to its program (`node_modules/.bin/codex`).
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream, type UpstreamCall } from "../../src/testing/upstream.ts";
import { startServer } from "../http/process.ts";
import { later, temporaryFolder } from "../support.ts";

const codex = process.env.ROTUNDA_TEST_CODEX ?? "";
const SKIPPED = "SKIPPED: set ROTUNDA_TEST_CODEX to a codex program";

async function run(call: UpstreamCall) {
  const folder = temporaryFolder();
  const upstream = await startUpstream([{ reasoning: "hm", calls: [call] }, { text: ["All ", "done."] }]);
  later(() => upstream.close());
  const server = await startServer(folder, upstream.url);
  const home = join(folder, "codex");
  const workspace = join(folder, "project");
  mkdirSync(home);
  mkdirSync(workspace);
  writeFileSync(
    join(home, "config.toml"),
    `model = "test-model"
model_provider = "rotunda"
[model_providers.rotunda]
name = "Rotunda"
base_url = "${server.url}/v1"
env_key = "ROTUNDA_TOKEN"
wire_api = "responses"
`,
  );
  const { PATH } = process.env;
  const env = { PATH, HOME: folder, CODEX_HOME: home, ROTUNDA_TOKEN: server.token };
  const flags = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Make a file"];
  const child = spawn(codex, flags, { cwd: workspace, env, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  return { code, out, workspace, upstream };
}

test.skipIf(!existsSync(codex))(`codex runs its own function (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { code, out, workspace, upstream } = await run({
    name: "exec_command",
    arguments: { cmd: "echo hello > made.txt" },
  });
  expect({ code, out: out.trim() }).toEqual({ code: 0, out: "All done." });
  expect(readFileSync(join(workspace, "made.txt"), "utf8")).toBe("hello\n");
  expect(upstream.refusals).toEqual([]);
});

test.skipIf(!existsSync(codex))(
  `codex runs a nested one of a namespace (${SKIPPED})`,
  { timeout: 90_000 },
  async () => {
    const { upstream } = await run({ name: "multi_agent_v1__spawn_agent", arguments: { message: "hi" } });
    expect(JSON.stringify(upstream.requests[1]?.body.messages)).toContain("agent_id");
  },
);
