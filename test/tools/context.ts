/** A tool context for tests. */
import type { ToolContext } from "../../src/types/tool.ts";

export function context(workspace: string, more: Partial<ToolContext> = {}): ToolContext {
  return {
    workspace,
    signal: new AbortController().signal,
    responseId: "resp_1",
    itemId: "mcp_1",
    profile: "general",
    depth: 0,
    isolation: { readOnly: false, network: false },
    progress: () => undefined,
    delegate: async () => ({ responseId: "resp_2", status: "completed", text: "", error: null }),
    readOutput: async () => undefined,
    ...more,
  };
}
