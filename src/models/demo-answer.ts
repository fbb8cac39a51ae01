/**
 * What the demo model says: a text made by fixed rules out of the results of real tool calls.
 *
 * Invariant: every text begins with the label that says that no language model wrote it, and states nothing
 * that is not in a result.
 */
import type { JsonObject } from "../types/json.ts";
import { oneLine } from "../util/text.ts";
import type { DemoResult } from "./demo-plan.ts";

const DEMO_LABEL = "[DEMO: no language model is configured; this text was made by fixed rules]";

/** For a request that has to do with no file. */
export function helpText(toolNames: readonly string[]): string {
  const offered =
    toolNames.length === 0
      ? "No tool is offered to me here."
      : `I call real tools: ${toolNames.slice(0, 12).join(", ")}.`;
  return `${DEMO_LABEL}

I am the built-in demo model. I cannot think, but everything around me is real. ${offered} Try:

- What is in this folder?
- List the TypeScript files and find TODO in src
- Read package.json and say what the scripts do
- Run \`git log -3\`
- Write notes.txt with hello, then read notes.txt

To talk to a real model, set a key (OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY, GROQ_API_KEY, MISTRAL_API_KEY, DEEPSEEK_API_KEY or FIREWORKS_API_KEY), start Ollama or LM Studio on this machine, or run \`rotunda init\`.`;
}

/** The answer to a request whose calls have been made. */
export function answerText(results: readonly DemoResult[], missing: readonly string[]): string {
  const parts = results.map((result) =>
    result.failed ? failureText(result) : (explainers[result.name] ?? explainAny)(result),
  );
  for (const tool of missing)
    parts.push(`For a part of this I would need the tool \`${tool}\`, which is not offered here.`);
  if (parts.length === 0) parts.push("I made no tool call, so I have nothing to report.");
  return [DEMO_LABEL, ...parts].join("\n\n");
}

function failureText({ name, arguments: given, output }: DemoResult): string {
  return `\`${name}\` ${oneLine(JSON.stringify(given), 120)} did not work: ${oneLine(output, 300)}`;
}

type Explainer = (result: DemoResult) => string;

const explainers: Record<string, Explainer | undefined> = {
  glob: explainGlob,
  grep: explainGrep,
  read: explainRead,
  bash: explainBash,
  task: ({ output }) =>
    `The sub-agent reported:\n\n${quote(output.replaceAll(DEMO_LABEL, "").replace(/\n{3,}/g, "\n\n"), 30)}`,
  TodoWrite: ({ output }) => output,
  write: ({ output }) => `${output}.`,
  edit: ({ output }) => `${output}.`,
};

function explainGlob({ arguments: given, output }: DemoResult): string {
  const place = typeof given.path === "string" ? ` in ${given.path}` : "";
  const files =
    output === "No files found" ? [] : output.split("\n").filter((line) => line !== "" && !line.startsWith("["));
  if (files.length === 0) return `No file matches \`${given.pattern}\`${place}.`;
  if (given.pattern === "**/*") return explainAll(files, isCut(output));
  const shown = files.slice(0, 10).map((file) => `- ${file}`);
  const more = files.length > shown.length ? [`- … and ${files.length - shown.length} more`] : [];
  return [
    `${count(files.length, "file")} ${files.length === 1 ? "matches" : "match"} \`${given.pattern}\`${place}:`,
    ...shown,
    ...more,
  ].join("\n");
}

/** A result that the engine has cut holds a note in the place of what is missing; one of a search, at its end. */
function isCut(output: string): boolean {
  return /^\[(?:… \d+ of \d+ characters left out here|more than \d+ files match)/m.test(output);
}

/** Files by folder and by kind. `cut`: there are more. */
function explainAll(files: readonly string[], cut: boolean): string {
  const tally = (nameOf: (file: string) => string | undefined) => {
    const counts = new Map<string, number>();
    for (const file of files) {
      const name = nameOf(file);
      if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const sorted = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, 8);
    return sorted.map(([name, number]) => `${name} (${number})`).join(", ");
  };
  const kinds = tally((file) => /\.\w+$/.exec(file)?.[0]);
  const folders = tally((file) => (file.includes("/") ? `${file.slice(0, file.indexOf("/"))}/` : undefined));
  const all = count(files.length, "file");
  const lines = [cut ? `There are many files; I was shown ${files.length} of them.` : `There are ${all} in all.`];
  if (kinds !== "") lines.push(`By kind: ${kinds}.`);
  if (folders !== "") lines.push(`By folder: ${folders}.`);
  return lines.join(" ");
}

function explainGrep({ arguments: given, output }: DemoResult): string {
  const place = typeof given.path === "string" ? ` in ${given.path}` : "";
  const lines = output === "No matches found" ? [] : output.split("\n").filter((line) => /:\d+:/.test(line));
  if (lines.length === 0) return `Nothing matches \`${given.pattern}\`${place}.`;
  const files = new Set(lines.map((line) => line.slice(0, line.search(/:\d+:/))));
  const shown = lines.slice(0, 5).map((line) => `- ${oneLine(line, 160)}`);
  const more = lines.length > shown.length ? [`- … and ${lines.length - shown.length} more`] : [];
  return [
    `\`${given.pattern}\`${place}: ${count(lines.length, "line")} in ${count(files.size, "file")}.`,
    ...shown,
    ...more,
  ].join("\n");
}

function explainRead({ arguments: given, output }: DemoResult): string {
  const files = (Array.isArray(given.files) ? given.files : []) as JsonObject[];
  const names = files.map((file) => String(file.file_path));
  const [only] = names;
  if (only !== undefined && names.length === 1) return explainFile(only, output);
  const bodies = output.split(/^=== File \d+\/\d+: .*===$/m).slice(1);
  return names.map((name, at) => explainFile(name, (bodies[at] ?? "").trim())).join("\n\n");
}

function explainFile(name: string, text: string): string {
  if (/(?:^|\/)package\.json$/.test(name)) {
    const told = explainPackage(name, text);
    if (told !== null) return told;
  }
  const lines = text.split("\n");
  const headings = lines.filter((line) => /^#{1,3} \S/.test(line));
  const title = headings[0]?.replace(/^#+ /, "");
  const cut = isCut(text);
  const length = count(text.trimEnd().split("\n").length, "line");
  const about = `\`${name}\` has ${cut ? "many lines (I was shown its beginning and its end)" : length}${title ? ` and is titled "${oneLine(title, 80)}"` : ""}.`;
  const rest = headings.slice(1, 8).map((heading) => `- ${oneLine(heading.replace(/^#+ /, ""), 80)}`);
  const sections = cut || headings.length > 8 ? "Some of its sections:" : "Its sections:";
  return rest.length > 0 ? [about, sections, ...rest].join("\n") : `${about} It begins:\n\n${quote(text, 6)}`;
}

const purposes: Record<string, string | undefined> = {
  build: "builds it",
  test: "runs the tests",
  lint: "checks the style",
  start: "starts it",
  dev: "starts it for development",
  check: "runs the checks",
  types: "checks the types",
  format: "formats the code",
  bench: "measures it",
  prepare: "is run by npm after an install and before publishing",
};

function explainPackage(name: string, text: string): string | null {
  let parsed: JsonObject;
  try {
    parsed = JSON.parse(text) as JsonObject;
  } catch {
    return null;
  }
  const described = typeof parsed.description === "string" ? `: ${oneLine(parsed.description, 160)}` : "";
  const version = typeof parsed.version === "string" ? ` ${parsed.version}` : "";
  const head = `\`${name}\` describes the package "${parsed.name ?? "without a name"}"${version}${described}.`;
  const scripts = Object.entries((parsed.scripts ?? {}) as JsonObject);
  if (scripts.length === 0) return `${head} It has no scripts.`;
  const lines = scripts.map(([script, command]) => {
    const purpose = purposes[script];
    return `- \`npm run ${script}\`${purpose ? ` ${purpose}` : ""}: it runs \`${oneLine(String(command), 160)}\``;
  });
  return [head, `Its ${count(scripts.length, "script")}:`, ...lines].join("\n");
}

function explainBash({ arguments: given, output }: DemoResult): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  return `\`${oneLine(String(given.command), 120)}\` printed ${count(lines.length, "line")}:\n\n${quote(output, 12)}`;
}

function explainAny({ name, output }: DemoResult): string {
  return `\`${name}\` answered:\n\n${quote(output, 12)}`;
}

/** The first lines of a text, marked as quoted. */
function quote(text: string, most: number): string {
  const lines = text.trim().split("\n");
  const shown = lines.slice(0, most).map((line) => `> ${line.length > 200 ? `${line.slice(0, 199)}…` : line}`);
  if (lines.length > most) shown.push(`> … (${lines.length - most} more lines)`);
  return shown.join("\n");
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
