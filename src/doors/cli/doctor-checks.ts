/**
 * The doctor's checks of everything but the database: Node, state, configuration, models, rules, sandbox, search, servers.
 *
 * Invariant: a check that fails is a finding, and keeps no other from being made.
 */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { toRotundaError } from "../../types/error.ts";
import { withoutPassword } from "../../util/mask.ts";
import { didYouMean } from "../../util/near-name.ts";
import { counted, matchesName } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { checkNames } from "./doctor-names.ts";

export interface Finding {
  name: string;
  state: "ok" | "warning" | "fault";
  text: string;
  remedy?: string;
}

export async function checkAll(context: CommandContext, { online }: { online: boolean }): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const check of [
    checkDatabase,
    checkNode,
    checkState,
    checkConfig,
    checkNames,
    checkModels,
    checkRules,
    checkSandbox,
    checkSearch,
    checkHub,
  ]) {
    try {
      findings.push(...(await check(context, online)));
    } catch (thrown) {
      const error = toRotundaError(thrown);
      findings.push({
        name: check.name.slice(5).toLowerCase(),
        state: "fault",
        text: error.message,
        ...(error.remedy !== undefined && { remedy: error.remedy }),
      });
    }
  }
  return findings;
}

/** The built-in one has been examined row by row. */
async function checkDatabase(context: CommandContext): Promise<Finding[]> {
  const { config, store } = await context.app();
  if (config.database === undefined) return [];
  const { server, responses, queued } = await (await store.browsing()).facts();
  const waiting = `${queued.toLocaleString("en")} waiting in the queue`;
  const text = `${withoutPassword(config.database)} (${server}, ${counted(responses, "response")}, ${waiting})`;
  return [{ name: "database", state: "ok", text }];
}

async function checkNode(): Promise<Finding[]> {
  return [{ name: "node", state: "ok", text: process.version }];
}

async function checkState(context: CommandContext): Promise<Finding[]> {
  const { stateDirectory } = await context.setUp();
  let existing = stateDirectory;
  while (!existsSync(existing)) existing = dirname(existing);
  accessSync(existing, constants.W_OK);
  const app = await context.app();
  const [latest] = await app.store.list({ limit: 1 });
  const open = statSync(stateDirectory).mode & 0o077;
  const findings: Finding[] = [
    { name: "state", state: "ok", text: `${stateDirectory}${latest ? "" : " (nothing stored yet)"}` },
  ];
  if (open !== 0) {
    findings.push({
      name: "state",
      state: "warning",
      text: "others may look into it",
      remedy: `chmod 700 ${stateDirectory}`,
    });
  }
  return findings;
}

async function checkConfig(context: CommandContext): Promise<Finding[]> {
  const setUp = await context.setUp();
  const { files, config } = await setUp.configuration();
  const findings: Finding[] = [
    files.length > 0
      ? { name: "config", state: "ok", text: files.join(", ") }
      : { name: "config", state: "warning", text: "no configuration file", remedy: "rotunda init" },
  ];
  // What waits for trust follows, each with its file.
  for (const text of config.warnings.filter((warning) => !warning.includes(" is left out until you trust "))) {
    findings.push({ name: "config", state: "warning", text });
  }
  for (const item of await setUp.untrusted()) {
    findings.push({
      name: "trust",
      state: "warning",
      text: `${item.what} of ${item.file} is left out`,
      remedy: "rotunda trust",
    });
  }
  return findings;
}

async function checkModels(context: CommandContext, online: boolean): Promise<Finding[]> {
  const models = await (await context.app()).models({ ask: online });
  const real = models.filter((model) => model.origin !== "demo");
  if (real.length > 0) {
    const how = online ? "" : " (not asked; rotunda doctor --online asks each)";
    const findings: Finding[] = [
      { name: "models", state: "ok", text: `configured or found: ${real.map((model) => model.id).join(", ")}${how}` },
    ];
    for (const { id, answer } of real) {
      if (answer) findings.push({ name: `model ${id}`, ...answer });
    }
    return findings;
  }
  const remedy = "export OPENAI_API_KEY=… (or another provider's), start Ollama, or name a model in rotunda.yaml";
  return [{ name: "models", state: "warning", text: "no model found: the built-in demo answers", remedy }];
}

/** A rule that names no tool protects nothing: mostly a typing mistake. */
async function checkRules(context: CommandContext): Promise<Finding[]> {
  const app = await context.app();
  const tools = await app.engine.tools();
  const { allow, ask, deny } = app.config.permissions;
  const names = tools.flatMap((tool) => [tool.name, `${tool.server}:${tool.serverName}`]);
  return [...deny, ...ask, ...allow].flatMap((rule) => {
    const name = rule.replace(/\([\s\S]*$/, "").trim();
    if (names.some((tool) => matchesName(name, tool))) return [];
    return [
      {
        name: "rules",
        state: "warning" as const,
        text: `the rule ${rule} names no tool${didYouMean(name, names)}`,
        remedy: "rotunda tools",
      },
    ];
  });
}

async function checkSandbox(context: CommandContext): Promise<Finding[]> {
  const level = await (await context.app()).sandboxLevel();
  if (level === "bwrap") return [{ name: "sandbox", state: "ok", text: "bubblewrap" }];
  const remedy = "apt-get install bubblewrap (or your system's package of that name)";
  if (level === "unshare")
    return [{ name: "sandbox", state: "ok", text: "unshare (bubblewrap would be the better one)", remedy }];
  return [{ name: "sandbox", state: "warning", text: "none: shell commands ask every time", remedy }];
}

async function checkSearch(context: CommandContext): Promise<Finding[]> {
  const app = await context.app();
  const { workspace } = context;
  const input = { pattern: "x{3}", path: ".", file_pattern: "package.json" };
  const result = await app.engine.call("grep", input, { workspace, by: "doctor" });
  return [
    { name: "search", state: result.isError ? "fault" : "ok", text: result.isError ? result.text : "ripgrep runs" },
  ];
}

async function checkHub(context: CommandContext): Promise<Finding[]> {
  const hub = await (await context.app()).hub();
  if (!hub) return [];
  const used = hub.servers().filter((server) => server.enabled);
  const tested = await Promise.all(used.map((server) => hub.test(server.name)));
  return tested.map(({ name, state, toolCount, error }) => ({
    name: `mcp ${name}`,
    state: state === "healthy" ? "ok" : "fault",
    text: state === "healthy" ? `${counted(toolCount, "tool")}` : `${state}: ${error ?? "no reason given"}`,
  }));
}
