/** What the engine stands on. It knows shapes only: no database, no endpoint, no protocol. */
import type { BudgetConfig } from "../types/budget.ts";
import type { CompactionConfig, HookConfig, HookPoint } from "../types/config.ts";
import type { Notify } from "../types/event.ts";
import type { Model } from "../types/model.ts";
import type { PermissionRules, Profile } from "../types/profile.ts";
import type { PermissionMode } from "../types/response.ts";
import type { Runner } from "../types/runner.ts";
import type { Store } from "../types/store.ts";
import type { Tracer } from "../types/telemetry.ts";
import type { ToolSource } from "../types/tool.ts";
import type { HookOutcome } from "../util/hook-process.ts";
import type { Redact } from "../util/secrets.ts";
import type { SandboxLevel } from "./permissions.ts";

export interface EngineParts {
  store: Store;
  /** Absent: whatever is started runs here at once. */
  runner?: Runner | undefined;
  /** The default model without an id. Throws `model_not_found`. */
  models: { get(id?: string): Promise<Model> };
  tools: ToolSource;
  profiles: {
    get(name?: string): Promise<Profile>;
    list(): readonly { name: string }[];
  };
  permissions: PermissionRules & { mode: PermissionMode };
  hooks: Partial<Record<HookPoint, HookConfig[]>>;
  /** Runs one hook command with JSON on its stdin. */
  runHook(hook: HookConfig, input: string, workspace: string, signal: AbortSignal): Promise<HookOutcome>;
  sandbox: { level(): Promise<SandboxLevel>; network: "auto" | "on" | "off" };
  /** What the workspace itself says to agents (AGENTS.md, skills); empty if nothing. */
  projectInstructions(workspace: string): Promise<string>;
  /** As configured; none that was set later. */
  budgets?: readonly BudgetConfig[] | undefined;
  /** Milliseconds that responses are kept, where nobody says otherwise. Absent: for ever. */
  keep?: number | undefined;
  toolOutputLimit: number;
  /** Default: `DEFAULT_COMPACTION`. */
  compaction?: CompactionConfig | undefined;
  /** Tokens (about) of tool schemas above which a model finds MCP tools with `tool_search`. Default 10,000. */
  toolSearchAbove?: number | undefined;
  /** Undefined: nobody wants to be told of spans. */
  tracer?: Tracer | undefined;
  redact: Redact;
  notify: Notify;
  /** Milliseconds since the epoch. */
  now(): number;
}
