/** Commands before anything runs: trust, doctor, init, config show. */
import { accessSync, constants, existsSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import type { TrustItem } from "../../types/app.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { createRedactor } from "../../util/secrets.ts";
import { matchesName, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

interface TrustFlags {
  yes?: boolean;
  list?: boolean;
  revoke?: boolean;
}

export async function trust(context: CommandContext, path: string | undefined, flags: TrustFlags): Promise<number> {
  const setUp = await context.setUp();
  const { out, err } = context.streams;
  const wanted = resolve(context.workspace, path ?? ".");
  if (flags.list) {
    for (const entry of setUp.trusted()) out(`${visible(`${entry.file}  ${entry.what}`)}  ${entry.trustedAt}\n`);
    return 0;
  }
  if (flags.revoke) {
    err(`No longer trusted: ${setUp.revoke(wanted)}\n`);
    return 0;
  }
  const items = (await setUp.untrusted()).filter((item) => item.file === wanted || item.file.startsWith(`${wanted}/`));
  if (items.length === 0) {
    err("Nothing here waits to be trusted.\n");
    return 0;
  }
  for (const item of items) out(describe(item));
  if (
    !flags.yes &&
    !(await confirmed(context, `Trust ${items.length === 1 ? "this" : `these ${items.length}`}? [y/N] `))
  ) {
    err("Nothing was trusted.\n");
    return 1;
  }
  setUp.trust(items);
  err(`Trusted: ${items.length}. A change to any of them asks again.\n`);
  return 0;
}

/** In full, so that nothing hides behind an ellipsis. */
function describe(item: TrustItem): string {
  return `${visible(item.file)}: ${visible(item.what)}\n  ${visible(JSON.stringify(item.content, null, 2)).replaceAll("\n", "\n  ")}\n`;
}

async function confirmed(context: CommandContext, question: string): Promise<boolean> {
  if (!context.interactive) {
    throw new RotundaError("approval_needed", "nobody is here to confirm it", {
      remedy: "Read it, then: rotunda trust --yes",
    });
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await lines.question(question)).trim());
  } finally {
    lines.close();
  }
}

export async function init(context: CommandContext, flags: { force?: boolean }): Promise<number> {
  const path = join(context.workspace, "rotunda.yaml");
  if (existsSync(path) && !flags.force) {
    throw new RotundaError("usage", `${path} is already there`, { remedy: "rotunda init --force writes over it." });
  }
  writeFileSync(path, (await context.setUp()).starter(), { mode: 0o644 });
  context.streams.err(`Wrote ${path}. Edit it, then: rotunda doctor\n`);
  return 0;
}

export async function configShow(
  context: CommandContext,
  flags: { origin?: boolean; json?: boolean; config?: string },
): Promise<number> {
  const setUp = await context.setUp();
  const { config, origins, files } = await setUp.configuration(flags.config);
  const { secrets, warnings, ...shown } = config;
  const redact = createRedactor(secrets);
  const { out, err } = context.streams;
  const safe = JSON.parse(redact(JSON.stringify({ ...shown, environment: undefined, untrusted: undefined }))) as object;
  if (flags.json) out(`${JSON.stringify({ files, ...(flags.origin && { origins }), config: safe })}\n`);
  else {
    out(files.length === 0 ? "# no configuration file; defaults\n" : files.map((file) => `# ${file}\n`).join(""));
    out(await setUp.yaml(safe));
    if (flags.origin) for (const [key, origin] of Object.entries(origins)) out(`# ${visible(`${key}: ${origin}`)}\n`);
  }
  for (const warning of warnings) err(`${visible(warning)}\n`);
  return 0;
}

interface Finding {
  name: string;
  state: "ok" | "warning" | "fault";
  text: string;
  remedy?: string;
}

export async function doctor(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const findings: Finding[] = [];
  for (const check of [
    checkNode,
    checkState,
    checkConfig,
    checkModels,
    checkRules,
    checkSandbox,
    checkSearch,
    checkHub,
  ]) {
    try {
      findings.push(...(await check(context)));
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
  if (flags.json) context.streams.out(`${JSON.stringify(findings)}\n`);
  else for (const finding of findings) context.streams.out(line(finding, context));
  return findings.some((finding) => finding.state === "fault") ? 1 : 0;
}

function line({ name, state, text, remedy }: Finding, { streams: { outStyle } }: CommandContext): string {
  const mark = state === "ok" ? outStyle.green("✓") : state === "warning" ? outStyle.yellow("!") : outStyle.red("✗");
  return `${mark} ${visible(name)}: ${visible(text)}\n${remedy === undefined ? "" : `    ${visible(remedy)}\n`}`;
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
  const { files } = await setUp.configuration();
  const findings: Finding[] = [
    files.length > 0
      ? { name: "config", state: "ok", text: files.join(", ") }
      : { name: "config", state: "warning", text: "no configuration file", remedy: "rotunda init" },
  ];
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

async function checkModels(context: CommandContext): Promise<Finding[]> {
  const models = await (await context.app()).models();
  const real = models.filter((model) => model.origin !== "demo");
  if (real.length > 0) return [{ name: "models", state: "ok", text: real.map((model) => model.id).join(", ") }];
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
      { name: "rules", state: "warning" as const, text: `the rule ${rule} names no tool`, remedy: "rotunda tools" },
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
  const input = { pattern: "x{3}", path: ".", file_pattern: "package.json" };
  const result = await app.engine.call("grep", input, { workspace: context.workspace, by: "doctor" });
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
    text: state === "healthy" ? `${toolCount} tools` : `${state}: ${error ?? "no reason given"}`,
  }));
}
