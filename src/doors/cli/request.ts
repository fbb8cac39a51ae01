/** From the flags of `rotunda chat` to a request to the engine. */
import { resolve } from "node:path";
import type { RunRequest } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import { LOCAL, type PermissionMode, type RunSettings } from "../../types/response.ts";
import { traceContextOf } from "../../util/trace-context.ts";
import type { AppFlags } from "./app-flags.ts";
import { approverFor, type CommandContext, type Interrupt } from "./context.ts";
import type { OutputFormat, TurnOptions } from "./turn.ts";

export interface ChatFlags extends AppFlags {
  agent?: string;
  temperature?: number;
  maxTurns?: number;
  outputFormat: OutputFormat;
  from?: string;
  continue?: boolean;
  conversation?: string;
  mode?: PermissionMode;
  stream: boolean;
  parallel: boolean;
  verbose: boolean;
  timeout?: number;
  /** Line by line, where the screen would be opened. */
  plain?: boolean;
}

export function turnOptions(context: CommandContext, flags: ChatFlags, interrupt: Interrupt): TurnOptions {
  const { outputFormat: format, stream, verbose } = flags;
  const tell = (text: string) => context.say("info", text);
  return { format, stream, verbose, streams: context.streams, tell, interrupt };
}

/** What the flags ask for. `--from` branches, `--continue` and `--conversation` go on. */
export async function requestFor(context: CommandContext, flags: ChatFlags, prompt: string): Promise<RunRequest> {
  const app = await context.app(flags);
  const approver = await approverFor(context);
  const { TRACEPARENT, TRACESTATE } = context.environment;
  const trace = traceContextOf(TRACEPARENT, TRACESTATE);
  const request: RunRequest = {
    input: prompt,
    workspace: context.workspace,
    door: "cli",
    settings: { ...settingsOf(flags, configurationOf(context, flags)), ...(trace && { trace }) },
    ...(flags.agent !== undefined && { profile: flags.agent }),
    ...(flags.model !== undefined && { model: flags.model }),
    ...(approver && { approver }),
  };
  if (flags.from !== undefined)
    request.previousResponseId = await (await import("./named.ts")).responseNamed(app, flags.from);
  else if (flags.conversation !== undefined) await goOnWith(context, flags.conversation, request);
  else if (flags.continue) {
    const [latest] = await app.store.conversations({ limit: 1, owner: LOCAL, workspace: context.workspace });
    if (!latest) throw new RotundaError("not_found", "there is no conversation in this directory to continue");
    request.conversation = latest.id;
  }
  return request;
}

/** A conversation by name or id; an unknown name makes one. */
async function goOnWith(context: CommandContext, name: string, request: RunRequest): Promise<void> {
  const app = await context.app();
  const known = await app.store.conversation(name);
  if (known) request.conversation = known.id;
  else if (name.startsWith("conv_")) request.conversation = await app.engine.resolveId(name, "conversation");
  else {
    request.conversation = "new";
    request.conversationName = name;
  }
}

/** The file that was named, so that whoever goes on with the response goes on under the same rules. */
function configurationOf(context: CommandContext, flags: ChatFlags): string | undefined {
  const named = flags.config ?? context.environment.ROTUNDA_CONFIG;
  return named ? resolve(context.workspace, named) : undefined;
}

function settingsOf(flags: ChatFlags, configuration: string | undefined): RunSettings {
  const settings: RunSettings = configuration === undefined ? {} : { configuration };
  if (flags.temperature !== undefined) settings.temperature = flags.temperature;
  if (flags.mode !== undefined) settings.mode = flags.mode;
  if (!flags.parallel) settings.parallel = false;
  if (flags.maxTurns !== undefined) settings.limits = { ...settings.limits, turns: flags.maxTurns };
  if (flags.timeout !== undefined) settings.limits = { ...settings.limits, seconds: flags.timeout };
  return settings;
}
