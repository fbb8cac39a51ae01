/**
 * Admin tools: Rotunda managed by a model or a program (parity S50: SpeakMCP's built-in tools).
 *
 * Invariant: none is offered to a model whose profile does not name it, and none to a sub-agent; what they show of the
 * settings is masked; results are one JSON object, as they were in SpeakMCP.
 */
import type { HubServerView } from "../types/app.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { ManagedProfile, ManagedProfiles } from "../types/settings.ts";
import type { Access, Tool, ToolContext, ToolResult } from "../types/tool.ts";
import type { RunOutcome } from "../util/process-tree.ts";
import { shellSubject } from "../util/shell-subject.ts";
import { type BashOptions, execute } from "./bash.ts";
import { answering, filledText, InputError, optionalInteger } from "./input.ts";

export interface AdminOptions extends BashOptions {
  /** Every configured MCP server. */
  servers(): Promise<HubServerView[]>;
  setEnabled(name: string, enabled: boolean): Promise<void>;
  profiles: Pick<ManagedProfiles, "list" | "switch" | "current">;
  /** SpeakMCP's settings, masked. */
  settings(): Promise<JsonObject>;
  /** Ends every response; resolves with how many. */
  cancelAll(reason: string): Promise<number>;
}

/** Milliseconds. */
const DEFAULT_TIMEOUT = 30_000;
const MAX_TIMEOUT = 600_000;

export function createAdminTools(options: AdminOptions): Tool[] {
  return [...serverTools(options), ...profileTools(options), ...systemTools(options)];
}

interface Wish {
  description: string;
  access: Access;
  properties?: JsonObject;
  required?: string[];
  subject?: Tool["subject"];
  run(input: JsonObject, context: ToolContext): Promise<JsonObject>;
}

function adminTool(name: string, { description, access, properties = {}, required, subject, run }: Wish): Tool {
  return {
    name,
    server: "rotunda",
    serverName: name,
    admin: true,
    description,
    access,
    repeatable: access === "read",
    parallel: access === "read",
    input: {
      type: "object",
      properties,
      ...(required && { required }),
      additionalProperties: false,
    },
    ...(subject && { subject }),
    run: answering(async (input, context): Promise<ToolResult> => {
      const result = await run(input, context);
      return {
        text: JSON.stringify(result, null, 2),
        structured: result,
        ...(result.success === false && { isError: true }),
      };
    }),
  };
}

function serverTools({ servers, setEnabled }: AdminOptions): Tool[] {
  return [
    adminTool("list_mcp_servers", {
      description: "Lists the configured MCP servers with their state.",
      access: "read",
      async run() {
        const list = (await servers()).map(({ name, state, connected, enabled, toolCount, transport, error }) => {
          return {
            name,
            status: state,
            connected,
            enabled,
            toolCount,
            transport,
            ...(error !== undefined && { error }),
          };
        });
        return { servers: list, count: list.length };
      },
    }),
    adminTool("toggle_mcp_server", {
      description: "Turns an MCP server on or off, from the next listing of tools on and lastingly.",
      access: "write",
      properties: {
        serverName: { type: "string", description: "Its name, as list_mcp_servers shows it." },
        enabled: { type: "boolean", description: "On or off. Default: the other of what it is." },
      },
      required: ["serverName"],
      async run(input) {
        const name = filledText(input, "serverName");
        const server = (await servers()).find((one) => one.name === name);
        if (!server) throw new InputError(`Server '${name}' not found`);
        const enabled = typeof input.enabled === "boolean" ? input.enabled : !server.enabled;
        await setEnabled(name, enabled);
        return { success: true, server: name, enabled };
      },
    }),
  ];
}

function profileTools({ profiles }: AdminOptions): Tool[] {
  return [
    adminTool("list_profiles", {
      description: "Lists the profiles, and which one answers where nobody is named.",
      access: "read",
      async run() {
        const [list, current] = await Promise.all([profiles.list(), profiles.current()]);
        const shown = list.map((one) => ({ ...brief(one), isActive: one.id === current.id }));
        return { profiles: shown, currentProfileId: current.id, count: shown.length };
      },
    }),
    adminTool("switch_profile", {
      description: "Makes a profile the one that answers where nobody is named, for all that begins from now on.",
      access: "write",
      properties: { profileIdOrName: { type: "string", description: "Its id or its name." } },
      required: ["profileIdOrName"],
      async run(input) {
        const profile = await profiles.switch(filledText(input, "profileIdOrName"));
        return { success: true, profile: { ...brief(profile), guidelines: profile.guidelines } };
      },
    }),
    adminTool("get_current_profile", {
      description: "Shows the profile that answers where nobody is named.",
      access: "read",
      async run() {
        const profile = await profiles.current();
        return { ...brief(profile), guidelines: profile.guidelines, systemPrompt: profile.systemPrompt };
      },
    }),
  ];
}

function brief({ id, name, isDefault, description }: ManagedProfile): { [key: string]: Json } {
  return { id, name, isDefault, description };
}

function systemTools(options: AdminOptions): Tool[] {
  return [
    adminTool("get_settings", {
      description: "Shows the settings in force; keys are masked.",
      access: "read",
      run: () => options.settings(),
    }),
    adminTool("execute_command", {
      description:
        "Runs a shell command in the workspace, in the same sandbox as bash, and answers {success, command, stdout, stderr, exitCode}.",
      access: "run",
      properties: {
        command: { type: "string", description: "The command line." },
        timeout: {
          type: "integer",
          minimum: 1,
          maximum: MAX_TIMEOUT,
          description: `Milliseconds after which it is ended. Default ${DEFAULT_TIMEOUT}.`,
        },
      },
      required: ["command"],
      subject: async (input) => {
        return shellSubject(input.command);
      },
      run: (input, context) => executeCommand(input, context, options),
    }),
    adminTool("kill_all_agents", {
      description: "Ends every response that runs or waits, this one too. MCP servers stay up.",
      access: "run",
      async run(_input, { responseId }) {
        const ended = options.cancelAll("emergency stop");
        // The caller is one of those that are ended: it cannot wait for its own end.
        if (responseId === "") return { success: true, message: "Emergency stop executed", ended: await ended };
        ended.catch(() => undefined);
        return { success: true, message: "Emergency stop executed" };
      },
    }),
  ];
}

/** Both outputs share one pipe: a line that nobody could guess stands between them. */
const SEPARATED = `f=$(mktemp) && ( eval "$1" ) 2>"$f"; code=$?; printf '\\n%s\\n' "$2"; cat "$f"; rm -f "$f"; exit $code`;

async function executeCommand(input: JsonObject, context: ToolContext, options: BashOptions): Promise<JsonObject> {
  const command = filledText(input, "command");
  const timeout = optionalInteger(input, "timeout", 1) ?? DEFAULT_TIMEOUT;
  if (timeout > MAX_TIMEOUT) throw new InputError(`timeout must be at most ${MAX_TIMEOUT} milliseconds`);
  if (command.includes("\0") || Buffer.byteLength(command) > 100 * 1024) {
    throw new InputError("command contains a NUL character or is longer than 100 kB");
  }
  const mark = `rotunda-${crypto.randomUUID()}`;
  const line = `set -- _ ${quoted(command)} ${quoted(mark)}; shift; ${SEPARATED}`;
  const outcome = await execute(line, timeout, context, options);
  if (outcome.ended === "not_started") {
    throw new RotundaError("internal", `the command could not be started: ${outcome.error?.message ?? "unknown"}`);
  }
  const [stdout = "", stderr = ""] = outcome.output.split(`\n${mark}\n`);
  const why = fault(outcome, timeout);
  return {
    success: why === undefined,
    command,
    stdout,
    stderr,
    ...(why !== undefined && { error: why }),
    ...(outcome.exitCode !== null && { exitCode: outcome.exitCode }),
  };
}

function fault({ ended, exitCode, signalName }: RunOutcome, timeout: number): string | undefined {
  if (ended === "timeout") return `Command timed out after ${timeout} ms`;
  if (ended !== "exited") return `Command ended: ${ended}`;
  if (exitCode === 0) return undefined;
  return exitCode === null
    ? `Command ended by ${signalName ?? "a signal"}`
    : `Command failed with exit code ${exitCode}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
