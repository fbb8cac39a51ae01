/**
 * All tools as one source: our own first, then those of MCP servers; what is disabled is left out.
 *
 * Invariant: the same array as long as its content is the same, whatever was loaded anew in between.
 */
import type { Tool, ToolSource } from "../types/tool.ts";

export interface ToolSources {
  /** Built-in tools, admin tools, the library's: those in force now. */
  own(): Promise<readonly Tool[]>;
  /** Undefined as long as no server is used. */
  hub(): Promise<ToolSource | undefined>;
  /** The hub where it was made, to close it. */
  madeHub(): Promise<ToolSource | undefined>;
  /** Names of tools that nobody is offered, in any accepted spelling. */
  disabled(): readonly string[];
}

const NONE: readonly Tool[] = [];

export function createTools({ own, hub, madeHub, disabled }: ToolSources): ToolSource {
  let parts: readonly unknown[] = [];
  let all = NONE;
  const isDisabled = ({ name, server, serverName }: Tool) => {
    const names = [name, `${server}:${serverName}`, `${server}__${serverName}`, `speakmcp-settings:${name}`];
    return disabled().some((one) => names.includes(one));
  };
  return {
    async list(signal) {
      const source = await hub();
      const served = source ? await source.list(signal) : NONE;
      const ours = await own();
      const fresh = [ours, served, disabled()];
      if (fresh.every((part, at) => part === parts[at])) return all;
      parts = fresh;
      all = [...ours, ...served].filter((tool) => !isDisabled(tool));
      return all;
    },
    async find(name) {
      // SpeakMCP called its built-in tools' server speakmcp-settings.
      const bare = name.replace(/^(?:rotunda|speakmcp-settings)(?::|__)/, "");
      const found = (await own()).find((tool) => tool.name === bare) ?? (await (await hub())?.find(name));
      return found && isDisabled(found) ? undefined : found;
    },
    async accept(name) {
      await (await hub())?.accept?.(name);
    },
    async close() {
      await (await madeHub())?.close();
    },
  };
}
