/**
 * Every snippet of the documentation runs, as a reader would run it: on a machine with a home, a project, a server and a
 * few conversations. Commands of other programs are stubs that take anything; the names are below.
 *
 * Invariant: a snippet of a kind that is not known here fails, and a line that is let off says why.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { hasPostgres, sharedPostgres } from "../support-postgres.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PROGRAM = join(ROOT, "bin", "rotunda.js");
/** Programs that are not ours, or would change the machine: they take whatever they are given, and say yes. */
const STUBS = [
  "acpx",
  "claude",
  "codex",
  "docker",
  "kubectl",
  "loginctl",
  "npm",
  "opencode",
  "ssh",
  "systemctl",
  "xdg-open",
];
/** Lines that may end otherwise than with 0, and why. */
const LET_OFF: readonly [line: RegExp, why: string, codes: readonly number[]][] = [
  [/rotunda (?:serve|worker|log --follow)\b/, "runs until it is stopped", [0, 124, 130, 143]],
  [/rotunda chat --model claude-code|rotunda .*--model main/, "needs a model that is not on this machine", [1, 2]],
  [/rotunda hub (?:test|login)/, "needs a server on the network", [1, 2]],
  [/write hello to notes\.txt/, "waits for a person", [3]],
  [/--forget/, "a rule of another machine", [2]],
  [/rotunda trust$/, "asks, and nobody answers", [0, 3]],
  [/^rotunda(?: chat(?: --(?:continue|from \w+|plain))?)?\s*(?:#|$)/, "is a screen, and there is no terminal", [2]],
  [/rotunda (?:compact|move work)\b/, "there may be nothing to do", [0, 1, 2]],
];

interface Snippet {
  language: string;
  text: string;
  /** Of its first line. */
  line: number;
}

function snippetsOf(page: string): Snippet[] {
  const found: Snippet[] = [];
  let open: Snippet | undefined;
  for (const [index, line] of readFileSync(join(ROOT, page), "utf8").split("\n").entries()) {
    const fence = /^\s*```(\w*)/.exec(line);
    if (!fence) {
      // In a list it is indented as a whole.
      if (open) open.text += `${line.replace(/^ {2}(?=\$ |sqlite3)/, "")}\n`;
    } else if (open) {
      found.push(open);
      open = undefined;
    } else open = { language: fence[1] ?? "", text: "", line: index + 2 };
  }
  return found;
}

const PAGES = [
  "README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

interface Machine {
  home: string;
  workspace: string;
  environment: NodeJS.ProcessEnv;
  /** What stands in the pages, and what it is here. */
  names: readonly [written: RegExp, here: string][];
}

let machine: Machine;

function run(command: string, args: string[], { workspace, environment }: Machine, input = "") {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: workspace,
    env: environment,
    encoding: "utf8",
    input,
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

function rotunda(on: Machine, ...args: string[]): string {
  const { status, stdout, stderr } = run(process.execPath, [PROGRAM, ...args], on);
  if (status !== 0 && status !== 3) throw new Error(`rotunda ${args.join(" ")}: ${status} ${stderr}`);
  return `${stdout}${stderr}`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address ? address.port : 0;
}

async function makeMachine(): Promise<Machine> {
  const home = mkdtempSync(join(tmpdir(), "rotunda-snippets-"));
  const [workspace, bin] = [join(home, "work"), join(home, "bin")];
  for (const folder of [join(workspace, "src"), join(workspace, "scripts"), bin])
    mkdirSync(folder, { recursive: true });
  writeFileSync(join(workspace, "src", "cart.js"), "// TODO: discounts\n");
  writeFileSync(join(workspace, "cart.js"), "// TODO: discounts\n");
  writeFileSync(join(workspace, "package.json"), '{"name":"shop","type":"module"}\n');
  writeFileSync(join(workspace, "reviewer.md"), "You review.\n");
  symlinkSync(join(ROOT, "examples"), join(workspace, "examples"));
  for (const name of STUBS)
    writeFileSync(join(bin, name), `#!/bin/sh\n${name === "ssh" ? "cat > /dev/null\n" : ""}exit 0\n`);
  writeFileSync(join(bin, "npx"), '#!/bin/sh\ncase "$1" in rotunda | node) exec "$@" ;; esac\nexit 64\n');
  const long = `case "$1 $2" in serve*|worker*|"log --follow") exec timeout -s INT 4`;
  const ours = `"${process.execPath}" "${PROGRAM}" "$@" < /dev/null`;
  writeFileSync(
    join(bin, "rotunda"),
    `#!/bin/bash\ncase "$1" in serve) "${process.execPath}" "${PROGRAM}" stop > /dev/null 2>&1;; esac\n${long} ${ours};; esac\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`,
  );
  for (const name of readdirSync(bin)) chmodSync(join(bin, name), 0o755);
  mkdirSync(join(home, ".config", "app.speakmcp"), { recursive: true });
  writeFileSync(
    join(home, ".config", "app.speakmcp", "config.json"),
    '{"mcpConfig":{"mcpServers":{}},"openaiApiKey":""}',
  );
  const port = await freePort();
  const environment: NodeJS.ProcessEnv = {
    PATH: `${bin}:${process.env.PATH}`,
    HOME: home,
    NO_COLOR: "1",
    ROTUNDA_PORT: String(port),
    EXAMPLE_API_KEY: "sk-example",
    DOCS_TOKEN: "t",
    DOCS_CLIENT_SECRET: "s",
    ROBOT_SECRET: "s",
    ROTUNDA_WEBHOOK_SECRET: "whsec_c2VjcmV0",
    ROTUNDA_TOKEN: "t",
  };
  const bare: Machine = { home, workspace, environment, names: [] };
  spawnSync("git", ["init", "-q"], { cwd: workspace });
  rotunda(bare, "chat", "What is in this folder?");
  for (const name of ["work", "birds"]) rotunda(bare, "chat", "--conversation", name, "read package.json");
  const [, response = ""] = /Response ID: (resp_\w+)/.exec(rotunda(bare, "chat", "Find TODO in src")) ?? [];
  const database = hasPostgres ? `${(await sharedPostgres()).url}&schema=snippets_${process.pid}` : "";
  rotunda(bare, "start");
  // A page that uses the two variables has set them before.
  environment.OPENAI_API_KEY = rotunda(bare, "token").trim();
  environment.OPENAI_BASE_URL = `http://127.0.0.1:${port}/v1`;
  return {
    ...bare,
    names: [
      [/7070/g, String(port)],
      [/\/path\/to\/checkout/g, ROOT],
      [/postgres:\/\/(?:rotunda:secret@db\.internal(?::5432)?\/rotunda|…)/g, database],
      [/\b(?:k3v9|rfcb|1a2b3c4d|mcd0pwhb)\b/g, response.slice(-8)],
      [/resp_01m80jmfnr020r0785389jwxzm/g, response],
      [/conv_01jd…/g, "birds"],
    ],
  };
}

beforeAll(async () => {
  machine = await makeMachine();
});

afterAll(() => {
  run(process.execPath, [PROGRAM, "stop"], machine);
  rmSync(machine.home, { recursive: true, force: true });
});

/** An approval that waits, fresh for each that wants one. */
function withApproval(text: string): string {
  if (!/1n6eg93h|mcpr_01m80jme8q00xezygtp9djz4f4/.test(text)) return text;
  rotunda(machine, "chat", "--no-stream", "write hello to notes.txt");
  const [{ id = "" } = {}] = JSON.parse(rotunda(machine, "approvals", "--json")) as { id: string }[];
  return text.replaceAll("1n6eg93h", id.slice(-8)).replaceAll("mcpr_01m80jme8q00xezygtp9djz4f4", id);
}

/** Logical lines: what ends in a backslash or opens a quote goes on. */
function linesOf(snippet: Snippet): string[] {
  const isSession = snippet.language === "console";
  const lines: string[] = [];
  let more = false;
  for (const line of snippet.text.split("\n")) {
    if (more) lines.push(`${lines.pop()}\n${line}`);
    else if (isSession && !line.startsWith("$ ")) continue;
    else if (line.trim() !== "" && !line.startsWith("#")) lines.push(isSession ? line.slice(2) : line);
    more = line.endsWith("\\");
  }
  return lines;
}

function runLines(snippet: Snippet): void {
  if (run(process.execPath, [PROGRAM, "status"], machine).status !== 0) rotunda(machine, "start");
  const lines = linesOf(snippet).map((line) =>
    machine.names.reduce((text, [from, to]) => text.replace(from, () => to), line),
  );
  expect(lines.length, "a snippet without a command").toBeGreaterThan(0);
  for (const line of lines) {
    if (/postgres:\/\//.test(line) === false && /--(?:to|from) ''?/.test(line)) continue; // No Postgres here: said aloud below.
    const { status, stdout, stderr } = run("bash", ["-c", withApproval(line)], machine);
    const off = LET_OFF.find(([pattern]) => pattern.test(line));
    expect(off?.[2] ?? [0], `${line}\n${stdout}\n${stderr}`).toContain(status);
    expect(stderr, line).not.toMatch(/internal fault|unknown (?:option|command)|is not a command/);
    if (/^curl/.test(line)) expect(stdout, line).not.toMatch(/"error":\s*\{"message"/);
    // What a line exports the next ones have.
    for (const [, name = "", value = ""] of line.matchAll(/(?:^export|\s)\s*([A-Z_]+)=(\S+)/g)) {
      if (!value.includes("$") && line.startsWith("export")) machine.environment[name] = value.replaceAll("'", "");
    }
  }
  for (const name of ["ROTUNDA_DATABASE", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME"])
    delete machine.environment[name];
}

/** Other programs' files are parsed; ours must be taken by `rotunda config show`. */
function checkYaml({ text }: Snippet): void {
  const value = parse(text) as Record<string, unknown>;
  expect(value).toBeTypeOf("object");
  if ("services" in value || "endpoints" in value || "apiVersion" in value) return;
  const path = join(machine.home, "snippet.yaml");
  writeFileSync(path, text);
  writeFileSync(join(machine.home, "reviewer.md"), "You review.\n");
  const { status, stderr } = run(process.execPath, [PROGRAM, "config", "show", "--config", path], machine);
  expect({ status, stderr }).toMatchObject({ status: 0 });
}

/** Programs of a reader run in a project that has the package and OpenAI's SDK. */
function runTypeScript({ text }: Snippet): void {
  if (run(process.execPath, [PROGRAM, "status"], machine).status !== 0) rotunda(machine, "start");
  const file = join(machine.workspace, "snippet.ts");
  const isPart = !/^import /m.test(text) || /client\.webhooks/.test(text);
  writeFileSync(
    file,
    isPart
      ? `import OpenAI from "openai";\nexport async function part(body: string, request: Request) {\n${text}\nreturn event;\n}\n`
      : text,
  );
  symlinkModules();
  const { status, stderr } = run(process.execPath, [file], machine);
  expect({ status, stderr: stderr.replace(/\(node:.*\n.*\n/g, "") }, text).toEqual({ status: 0, stderr: "" });
}

function symlinkModules(): void {
  const modules = join(machine.workspace, "node_modules");
  mkdirSync(modules, { recursive: true });
  for (const [name, to] of [
    ["rotunda", ROOT],
    ["openai", join(ROOT, "node_modules", "openai")],
  ] as const) {
    if (!readdirSync(modules).includes(name)) symlinkSync(to, join(modules, name));
  }
}

/** Nothing can be installed for it: it is compiled. */
function checkPython({ text }: Snippet): void {
  const { status, stderr } = run(
    "python3",
    ["-c", "import sys; compile(sys.stdin.read(), 'snippet', 'exec')"],
    machine,
    text,
  );
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
}

const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("SKIPPED: Python's snippets are not compiled, python3 is missing\n");
if (!hasPostgres) process.stderr.write("SKIPPED: the snippets that name a Postgres database, it is missing\n");

const KINDS: Record<string, (snippet: Snippet) => void> = {
  sh: runLines,
  console: runLines,
  yaml: checkYaml,
  json: ({ text }) => void JSON.parse(text.replaceAll("…", "")),
  ts: runTypeScript,
  python: (snippet) => hasPython && checkPython(snippet),
  bash: (snippet) => {
    if (!snippet.text.startsWith("#!")) runLines(snippet);
    // A hook: what it says is JSON.
    else JSON.parse(run("bash", ["-c", snippet.text], machine, "{}").stdout);
  },
  // Of other programs, which are not here; and what is only shown.
  nginx: ({ text }) => expect(text.split("{")).toHaveLength(text.split("}").length),
  ini: ({ text }) => expect(text).toMatch(/^\[\w+\]\n(?:\w|#)/),
  text: () => undefined,
};

describe.each(PAGES)("%s", (page) => {
  const snippets = snippetsOf(page);
  test.each(snippets.map((snippet) => ({ ...snippet, name: `line ${snippet.line}: ${snippet.language}` })))(
    "$name",
    { timeout: 180_000 },
    (snippet) => {
      const check = KINDS[snippet.language];
      if (!check) throw new Error(`a snippet of an unknown kind: ${snippet.language || "none"}`);
      check(snippet);
    },
  );
  test.skipIf(snippets.length > 0)("has no snippet", () => expect(snippets).toEqual([]));
});
