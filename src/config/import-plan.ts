/**
 * What `rotunda import` would take over: recognised by content, not by name.
 *
 * Invariant: nothing is written and nothing is started here; a file that is of no known kind is an error, one of
 * several in a folder that cannot be read is a note.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { ImportPlan } from "../types/app.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { parseBounded } from "../util/limits.ts";
import { unsetVariables } from "./expand.ts";
import { readConfigFile } from "./files.ts";
import { isConversation, readConversation } from "./import-conversations.ts";
import { serversOfPrograms } from "./import-programs.ts";
import { convertServer, escapeReferences, isObject, mapTexts } from "./import-servers.ts";
import { isSpeakmcpConfig, isSpeakmcpProfiles, takeConfig, takeProfiles } from "./import-speakmcp.ts";

interface Place {
  workspace: string;
  environment: NodeJS.ProcessEnv;
}

const MAX_CONVERSATION = 256 * 1024 * 1024;
/** Files of a folder that are looked at, beside SpeakMCP's. */
const KNOWN = [
  ".polybrain.yaml",
  "mcp-servers.json",
  "finta.yaml",
  "configs/finta.yaml",
  ".mcp.json",
  "mcp.json",
  ".cursor/mcp.json",
  ".vscode/mcp.json",
  "claude_desktop_config.json",
];

/** Throws `usage` where there is nothing that is understood. */
export async function readImport(path: string, { workspace, environment }: Place): Promise<ImportPlan> {
  const full = resolve(workspace, path);
  const stat = statSync(full, { throwIfNoEntry: false });
  if (!stat) throw new RotundaError("usage", `there is no ${full}`);
  const plan: ImportPlan = { source: "", settings: {}, conversations: [], notes: [] };
  if (stat.isDirectory()) await takeFolder(full, plan, environment);
  else await takeFile(full, plan, environment);
  if (plan.source === "") {
    throw new RotundaError("usage", `${full} holds nothing that can be imported`, {
      remedy: "docs/moving.md names the files that can.",
    });
  }
  return plan;
}

async function takeFolder(folder: string, plan: ImportPlan, environment: NodeJS.ProcessEnv): Promise<void> {
  for (const name of ["config.json", "profiles.json", ...KNOWN]) {
    const path = join(folder, name);
    if (!existsSync(path)) continue;
    try {
      await takeFile(path, plan, environment);
    } catch (error) {
      plan.notes.push({ taken: false, text: `${name}: ${(error as Error).message}` });
    }
  }
  for (const [part, what] of [
    ["oauth-tokens.json", "sign in again at each MCP server that needs it"],
    ["memories", "memories have no counterpart yet"],
    ["recordings", "recordings have no counterpart"],
  ] as const) {
    if (plan.source === "SpeakMCP" && existsSync(join(folder, part)))
      plan.notes.push({ taken: false, text: `${part}: ${what}` });
  }
  const conversations = [folder, join(folder, "conversations")].find((one) => existsSync(join(one, "index.json")));
  if (conversations !== undefined) takeConversations(conversations, plan);
  else if (existsSync(join(folder, "conversations"))) takeConversations(join(folder, "conversations"), plan);
}

function takeConversations(folder: string, plan: ImportPlan): void {
  for (const name of readdirSync(folder).sort()) {
    if (!name.endsWith(".json") || name === "index.json" || name === "metadata.json") continue;
    let value: Json = null;
    try {
      requireFile(join(folder, name));
      value = parseBounded(readFileSync(join(folder, name), "utf8"), MAX_CONVERSATION);
    } catch {
      plan.notes.push({ taken: false, text: `conversation ${name}: it cannot be read as JSON` });
      continue;
    }
    if (isObject(value) && isConversation(value)) takeConversation(value, plan);
    else plan.notes.push({ taken: false, text: `conversation ${name}: it has no id or no messages` });
  }
}

function takeConversation(value: JsonObject, plan: ImportPlan): void {
  plan.source ||= "SpeakMCP";
  const read = readConversation(value);
  if (typeof read === "string") {
    plan.notes.push({ taken: false, text: `conversation ${String(value.id)}: ${read}` });
    return;
  }
  const { conversation, folded } = read;
  plan.conversations.push(conversation);
  const copies = folded === 0 ? "" : `; ${folded} messages were copies of earlier ones`;
  const text = `conversation ${conversation.sourceId}: ${conversation.turns.length} turns${copies}`;
  plan.notes.push({ taken: true, text });
}

/** A pipe would be waited for, and a device has no end. Throws `usage`. */
function requireFile(path: string): void {
  const stat = statSync(path);
  if (!stat.isFile()) throw new RotundaError("usage", `${path} is no file`);
  if (stat.size > MAX_CONVERSATION) throw new RotundaError("usage", `${path} is too large`);
}

async function takeFile(path: string, plan: ImportPlan, environment: NodeJS.ProcessEnv): Promise<void> {
  requireFile(path);
  const { raw } = await readConfigFile({ path, kind: "rotunda", project: false });
  const { settings, notes } = plan;
  const theirs = serversOfPrograms(raw);
  if (isConversation(raw)) takeConversation(raw, plan);
  else if (isSpeakmcpConfig(raw)) {
    plan.source ||= "SpeakMCP";
    takeConfig(raw, settings, notes, environment);
  } else if (isSpeakmcpProfiles(raw)) {
    plan.source ||= "SpeakMCP";
    takeProfiles(raw, settings, notes);
  } else if (theirs) {
    plan.source ||= theirs.program;
    takeServers(path, { mcpServers: theirs.servers }, plan, environment);
  } else if (isPolybrain(raw)) takePolybrain(raw, plan, environment);
  else if (isObject(raw.mcp) || isObject(raw.hooks)) takeFinta(raw, plan);
  else if (isObject(raw.mcpServers) || isObject(raw.servers)) takeServers(path, raw, plan, environment);
  else throw new RotundaError("usage", `${path} is of no kind that can be imported`);
}

function isPolybrain(raw: JsonObject): boolean {
  const models = Array.isArray(raw.models) ? raw.models : [];
  return models.some((model) => isObject(model) && "modelName" in model) || raw.truncateLimit !== undefined;
}

/** Parity P11: `${VAR}` is expanded anywhere, a dollar sign alone is none. */
function takePolybrain(raw: JsonObject, plan: ImportPlan, environment: NodeJS.ProcessEnv): void {
  plan.source ||= "Polybrain";
  const { settings, notes } = plan;
  for (const model of Array.isArray(raw.models) ? raw.models.filter(isObject) : []) {
    const { id, modelName, baseUrl, apiKey, provider } = model;
    const missing = typeof id !== "string" ? "id" : typeof baseUrl !== "string" ? "baseUrl" : undefined;
    if (missing !== undefined) {
      notes.push({ taken: false, text: `model ${String(id ?? modelName)}: it has no ${missing}` });
      continue;
    }
    const kept = Object.fromEntries(
      Object.entries({ id, model: modelName, baseUrl, apiKey, provider }).filter(([, value]) => value !== undefined),
    );
    const entry = mapTexts(kept, (text) => text.replace(/\$(?!\{)/g, "$$$$")) as JsonObject;
    const unset = unsetVariables(entry, environment);
    if (unset.length > 0) {
      notes.push({ taken: false, text: `model ${String(id)}: set ${unset.join(", ")} first, then import it again` });
      continue;
    }
    settings.models = [...(settings.models ?? []), entry];
    notes.push({ taken: true, text: `model ${String(id)}` });
  }
  if (Number.isInteger(raw.httpPort)) {
    settings.server = { ...settings.server, port: raw.httpPort };
    notes.push({ taken: true, text: "httpPort: the port of rotunda serve" });
  }
  if (raw.truncateLimit !== undefined) {
    const same = `compaction: {strategy: first-last, messages: ${JSON.stringify(raw.truncateLimit)}}`;
    notes.push({ taken: false, text: `truncateLimit: older items are summed up instead; the same is ${same}` });
  }
  if (raw.logLevel !== undefined) notes.push({ taken: false, text: "logLevel: nothing here corresponds to it" });
}

/** Parity F15, F17: variables in `env` only, unset ones empty. */
function takeFinta(raw: JsonObject, plan: ImportPlan): void {
  plan.source ||= "Finta";
  const { settings, notes } = plan;
  const servers = isObject(raw.mcp) && Array.isArray(raw.mcp.servers) ? raw.mcp.servers.filter(isObject) : [];
  for (const { name, ...entry } of servers) {
    const converted = convertServer(entry, false);
    if (typeof name !== "string" || "why" in converted) {
      notes.push({
        taken: false,
        text: `MCP server ${String(name)}: ${"why" in converted ? converted.why : "it has no name"}`,
      });
      continue;
    }
    const { env, ...rest } = converted.server;
    const lenient = (text: string) =>
      text.replace(/\$(?:\{(\w+)\}|(\w+))/g, (_, braced, bare) => `\${${braced ?? bare}:-}`);
    const server = {
      ...(escapeReferences(rest) as JsonObject),
      ...(env !== undefined && { env: mapTexts(env, lenient) }),
    };
    settings.mcpServers = { ...settings.mcpServers, [name]: server };
    notes.push({ taken: true, text: `MCP server ${name}` });
  }
  const hooks = isObject(raw.hooks) ? raw.hooks : {};
  const confirm = Array.isArray(hooks.tool_confirm) ? hooks.tool_confirm.filter((one) => typeof one === "string") : [];
  const ask = [...(hooks.bash_confirm === true ? ["bash"] : []), ...confirm];
  if (ask.length === 0) return;
  settings.permissions = { ...settings.permissions, ask };
  notes.push({ taken: true, text: `confirmations: ${ask.join(", ")}` });
}

/** Claude Desktop, Cursor, VS Code, notion-open-agent. `${env:NAME}` is Cursor's and VS Code's form of a reference. */
function takeServers(path: string, raw: JsonObject, plan: ImportPlan, environment: NodeJS.ProcessEnv): void {
  plan.source ||= basename(path);
  const { settings, notes } = plan;
  const servers = isObject(raw.mcpServers) ? raw.mcpServers : isObject(raw.servers) ? raw.servers : {};
  for (const [name, entry] of Object.entries(servers)) {
    const converted = convertServer(entry, false);
    if ("why" in converted) {
      notes.push({ taken: false, text: `MCP server ${name}: ${converted.why}` });
      continue;
    }
    const server = mapTexts(converted.server, (text) => text.replace(/\$\{env:(\w+)\}/g, "$${$1}")) as JsonObject;
    if (/\$\{(?:input|workspaceFolder|command)\b/.test(JSON.stringify(server))) {
      notes.push({ taken: false, text: `MCP server ${name}: it asks its editor for values; write them in its place` });
      continue;
    }
    const unset = unsetVariables(server, environment);
    if (unset.length > 0) {
      notes.push({ taken: false, text: `MCP server ${name}: set ${unset.join(", ")} first, then import it again` });
      continue;
    }
    if (settings.mcpServers?.[name]) {
      notes.push({ taken: false, text: `MCP server ${name} of ${path}: an earlier file has one of this name` });
      continue;
    }
    settings.mcpServers = { ...settings.mcpServers, [name]: server };
    notes.push({ taken: true, text: `MCP server ${name}` });
    for (const lost of converted.lost) notes.push({ taken: false, text: `MCP server ${name}: ${lost}` });
  }
}
