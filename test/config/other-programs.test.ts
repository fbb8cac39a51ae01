/** What other programs left in a home directory is found, and taken over as they meant it. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { readImport } from "../../src/config/import-plan.ts";
import { findOtherPrograms } from "../../src/config/other-programs.ts";
import { temporaryFolder } from "../support.ts";

function home(files: Record<string, string>): string {
  const folder = temporaryFolder();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

async function serversOf(path: string, text: string, environment: NodeJS.ProcessEnv = {}) {
  const folder = home({ [path]: text });
  const plan = await readImport(join(folder, path), { workspace: folder, environment });
  return {
    servers: plan.settings.mcpServers,
    left: plan.notes.filter(({ taken }) => !taken).map(({ text: why }) => why),
  };
}

describe("the servers of", () => {
  test("Codex: TOML, a dollar sign is none of a reference, tokens by the names of variables", async () => {
    const text = `model = "gpt-5"
[mcp_servers.files]
command = "npx"
args = ["-y", "server", "$HOME"]
env = { KEY = "a$b" }
[mcp_servers.remote]
url = "https://mcp.example/x"
bearer_token_env_var = "THEIR_TOKEN"
[mcp_servers.off]
command = "off"
enabled = false
`;
    expect(await serversOf("config.toml", text, { THEIR_TOKEN: "t" })).toEqual({
      servers: {
        files: { command: "npx", args: ["-y", "server", "$$HOME"], env: { KEY: "a$$b" } },
        remote: { url: "https://mcp.example/x", headers: { Authorization: "Bearer ${THEIR_TOKEN}" } },
        off: { command: "off", disabled: true },
      },
      left: [],
    });
    const { servers, left } = await serversOf("config.toml", text);
    expect(Object.keys(servers ?? {})).toEqual(["files", "off"]);
    expect(left).toEqual(["MCP server remote: set THEIR_TOKEN first, then import it again"]);
  });

  test("opencode: comments, commands as lists, {env:NAME}", async () => {
    const text = `{ // what I use
      "mcp": {
        "weather": { "type": "local", "command": ["bun", "x", "weather"], "environment": { "KEY": "{env:W_KEY}" } },
        "docs": { "type": "remote", "url": "https://docs.example/mcp", "enabled": false },
      } }`;
    expect((await serversOf("opencode.json", text, { W_KEY: "k" })).servers).toEqual({
      weather: { command: "bun", args: ["x", "weather"], env: { KEY: "${W_KEY}" } },
      docs: { url: "https://docs.example/mcp", disabled: true },
    });
  });

  test("Zed, in both of its forms", async () => {
    const text = `{"theme": "One", "context_servers": {
      "old": { "command": { "path": "pg-mcp", "args": ["--x"], "env": { "A": "b" } }, "settings": {} },
      "new": { "source": "custom", "command": "pg-mcp", "args": [] } }}`;
    expect((await serversOf("settings.json", text)).servers).toEqual({
      old: { command: "pg-mcp", args: ["--x"], env: { A: "b" } },
      new: { command: "pg-mcp", args: [] },
    });
  });

  test("Gemini's command line, which has an address of its own name", async () => {
    const text = `{"mcpServers": {"a": {"httpUrl": "https://a.example/mcp"}}}`;
    expect((await serversOf("settings.json", text)).servers).toEqual({ a: { url: "https://a.example/mcp" } });
  });

  test("a mistake in a file names the file, and quotes nothing of it", async () => {
    const read = serversOf("config.toml", 'key = "sk-very-secret\n[mcp_servers');
    await expect(read).rejects.toThrow(/config\.toml:1:\d+: this is no TOML/);
    await expect(read).rejects.not.toThrow(/sk-very/);
  });
});

test("programs are found by where their files are; what cannot be read is as if it were not there", async () => {
  const folder = home({
    ".cursor/mcp.json": `{"mcpServers": {"files": {"command": "files-mcp"}}}`,
    ".codex/config.toml": `model = "gpt-5"`,
    ".claude.json": `{"projects": {}, "mcpServers": {"gh": {"type": "http", "url": "https://gh.example/mcp"}}}`,
    ".gemini/settings.json": "{ broken",
    ".config/opencode/opencode.json": `{"mcp": {"w": {"type": "local", "command": ["w"], "environment": {"K": "{env:NOT_SET}"}}}}`,
  });
  const found = await findOtherPrograms(folder, { HOME: folder });
  expect(found.map(({ program, servers, left }) => [program, Object.keys(servers), left])).toEqual([
    ["Claude Code", ["gh"], []],
    ["Cursor", ["files"], []],
    ["opencode", [], ["MCP server w: set NOT_SET first, then import it again"]],
  ]);
});
