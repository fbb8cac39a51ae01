/**
 * Other programs of this user whose MCP servers and conversations could be taken over.
 *
 * Invariant: files are only read, and a file that cannot be read is as if it were not there.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { OtherProgram } from "../types/app.ts";
import { readImport } from "./import-plan.ts";
import { home } from "./paths.ts";

/** Below the home directory. */
const PLACES: readonly [program: string, paths: readonly string[]][] = [
  [
    "Claude Desktop",
    [
      ".config/Claude/claude_desktop_config.json",
      "Library/Application Support/Claude/claude_desktop_config.json",
      "AppData/Roaming/Claude/claude_desktop_config.json",
    ],
  ],
  ["Claude Code", [".claude.json"]],
  ["Codex", [".codex/config.toml"]],
  ["Cursor", [".cursor/mcp.json"]],
  ["opencode", [".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"]],
  ["Zed", [".config/zed/settings.json"]],
  [
    "VS Code",
    [
      ".config/Code/User/mcp.json",
      "Library/Application Support/Code/User/mcp.json",
      "AppData/Roaming/Code/User/mcp.json",
    ],
  ],
  ["Windsurf", [".codeium/windsurf/mcp_config.json"]],
  ["Gemini CLI", [".gemini/settings.json"]],
  ["LM Studio", [".lmstudio/mcp.json"]],
  ["SpeakMCP", [".config/app.speakmcp", "Library/Application Support/app.speakmcp", "AppData/Roaming/app.speakmcp"]],
];

export async function findOtherPrograms(workspace: string, environment: NodeJS.ProcessEnv): Promise<OtherProgram[]> {
  const found: OtherProgram[] = [];
  for (const [program, paths] of PLACES) {
    for (const path of paths.map((one) => join(home(environment), one)).filter((one) => existsSync(one))) {
      try {
        const plan = await readImport(path, { workspace, environment });
        const { mcpServers = {}, models = [] } = plan.settings;
        const conversations = plan.conversations.length;
        const left = plan.notes.filter(({ taken }) => !taken).map(({ text }) => text);
        if (Object.keys(mcpServers).length + models.length + conversations + left.length === 0) continue;
        found.push({ program, path, servers: mcpServers, models: models.length, conversations, left });
      } catch {
        // It holds nothing of that kind, or nothing that can be read.
      }
    }
  }
  return found;
}
