/** Commands about what can be called and who can answer: tools, call, models, permissions. */
import { RotundaError } from "../../types/error.ts";
import type { JsonObject } from "../../types/json.ts";
import type { PermissionMode } from "../../types/response.ts";
import { parseBounded } from "../../util/limits.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import { type CommandContext, interruptible } from "./context.ts";

export async function tools(context: CommandContext, flags: { json?: boolean; agent?: string }): Promise<number> {
  const app = await context.app();
  const list = await app.engine.tools(flags.agent);
  if (flags.json) {
    const shown = list.map(({ name, server, description, access, repeatable, input }) => {
      return { name, server, description, access, repeatable, input };
    });
    context.streams.out(`${JSON.stringify(shown)}\n`);
    return 0;
  }
  for (const tool of list) {
    context.streams.out(
      `- ${tool.name} (${visible(tool.server)}) [${tool.access}] ${visible(oneLine(tool.description, 90))}\n`,
    );
  }
  context.streams.out(`${counted(list.length, "tool")} available.\n`);
  for (const server of (await app.hub())?.servers() ?? []) {
    if (server.state === "failed" || server.state === "needs_login")
      context.streams.err(`MCP server ${visible(server.name)} ${server.state}: ${visible(server.error ?? "")}\n`);
  }
  return 0;
}

export async function call(
  context: CommandContext,
  name: string,
  json: string | undefined,
  flags: { json?: boolean },
): Promise<number> {
  const app = await context.app();
  const input = parseInput(json ?? "{}");
  const interrupt = interruptible(app);
  try {
    const { workspace } = context;
    const result = await app.engine.call(name, input, { workspace, signal: interrupt.signal, by: "cli" });
    if (flags.json) context.streams.out(`${JSON.stringify(result)}\n`);
    else {
      const text = context.streams.terminal ? visible(result.text) : result.text;
      context.streams.out(text.endsWith("\n") ? text : `${text}\n`);
    }
    return result.isError ? 1 : 0;
  } finally {
    interrupt.dispose();
  }
}

function parseInput(text: string): JsonObject {
  let value: unknown;
  try {
    value = parseBounded(text, 10_000_000);
  } catch (error) {
    throw new RotundaError(
      "usage",
      `the arguments are not JSON: ${error instanceof Error ? error.message : String(error)}`,
      {
        remedy: `Write them as one object: rotunda call read '{"files":[{"file_path":"README.md"}]}'`,
      },
    );
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RotundaError("usage", "the arguments must be a JSON object");
  }
  return value as JsonObject;
}

export async function models(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const list = await app.models();
  if (flags.json) {
    context.streams.out(`${JSON.stringify(list)}\n`);
    return 0;
  }
  for (const model of list) {
    const where = model.baseUrl === null ? "built in" : model.baseUrl;
    context.streams.out(
      `${model.default ? "*" : " "} ${visible(model.id)}  ${visible(model.model)}  ${visible(where)}  (${model.origin})\n`,
    );
  }
  return 0;
}

export async function permissions(
  context: CommandContext,
  flags: { json?: boolean; forget?: string },
): Promise<number> {
  const app = await context.app();
  if (flags.forget !== undefined) {
    const found = await app.store.removeRule(flags.forget);
    if (!found) throw new RotundaError("not_found", `there is no learned rule ${flags.forget}`);
    context.streams.err("Forgotten.\n");
    return 0;
  }
  const { permissions: configured } = app.config;
  const learned = await app.store.rules();
  if (flags.json) {
    context.streams.out(`${JSON.stringify({ ...configured, learned })}\n`);
    return 0;
  }
  const { out } = context.streams;
  out(`mode: ${configured.mode}\n`);
  for (const effect of ["deny", "ask", "allow"] as const) {
    for (const rule of configured[effect]) out(`${effect}: ${visible(rule)}\n`);
  }
  for (const rule of learned)
    out(
      `allow: ${visible(rule.rule)}  (learned from an answer, ${rule.scope} in ${rule.holder}; --forget ${rule.id})\n`,
    );
  return 0;
}

/** Exit code 0: it may run; 3: it asks; 1: it is denied. */
export async function permissionsTest(
  context: CommandContext,
  name: string,
  json: string | undefined,
  flags: { json?: boolean; agent?: string; mode?: PermissionMode },
): Promise<number> {
  const app = await context.app();
  const { agent: profile, mode } = flags;
  const judgement = await app.engine.judge(name, parseInput(json ?? "{}"), {
    workspace: context.workspace,
    ...(profile !== undefined && { profile }),
    ...(mode !== undefined && { mode }),
  });
  if (flags.json) context.streams.out(`${JSON.stringify(judgement)}\n`);
  else context.streams.out(`${judgement.effect}: ${visible(judgement.why)}\n`);
  return { allow: 0, ask: 3, deny: 1 }[judgement.effect];
}
