/**
 * What the demo model does: the words of a request become steps of tool calls, by fixed rules.
 *
 * Invariant: a plan depends on nothing but the request's words, the offered tools and the results so far, so
 * that a run that is taken up again goes on where it was.
 */
import type { Json, JsonObject } from "../types/json.ts";
import type { ToolDefinition } from "../types/model.ts";

export interface DemoCall {
  /** Name of the offered tool. */
  name: string;
  arguments: JsonObject;
}

/** A call and what came of it. */
export interface DemoResult {
  name: string;
  arguments: JsonObject;
  output: string;
  failed: boolean;
}

/** Calls that are made at once. Made out of the results so far; none: the step is left out. */
export type DemoStep = (results: readonly DemoResult[]) => DemoCall[];

export interface DemoPlan {
  steps: DemoStep[];
  /** Tools that the request would need and that are not offered. */
  missing: string[];
}

const builtin = new Set(["read", "write", "edit", "bash", "glob", "grep", "TodoWrite", "task", "read_output"]);

/** A name that looks like a file's. It begins where a word does, so that long words are tried once. */
const FILE = String.raw`(?<![\w@./-])(?:[\w@./-]*\.[a-zA-Z]\w{0,7}|(?:[\w@./-]+/)?(?:README|LICENSE|Makefile|Dockerfile|CHANGELOG))\b`;

/** Characters of a request, and of one clause of it, that are looked at: the rules are not made for long texts. */
const LONGEST_REQUEST = 2_000;
const LONGEST_CLAUSE = 400;

const kinds: Record<string, string> = {
  typescript: "**/*.{ts,tsx}",
  ts: "**/*.ts",
  javascript: "**/*.{js,mjs,cjs,jsx}",
  js: "**/*.js",
  python: "**/*.py",
  markdown: "**/*.md",
  md: "**/*.md",
  json: "**/*.json",
  yaml: "**/*.{yaml,yml}",
  css: "**/*.css",
  html: "**/*.html",
  go: "**/*.go",
  rust: "**/*.rs",
  java: "**/*.java",
  test: "**/*{test,spec}*",
};

/** The plan for a request; null: it asks for nothing that has to do with files. */
export function makePlan(request: string, tools: readonly ToolDefinition[]): DemoPlan | null {
  const planner = new Planner(tools);
  // The terminal's `@` stands in front of paths.
  const words = request.slice(0, LONGEST_REQUEST).replace(/(?<!\S)@(?=[\w./-])/g, "");
  for (const [number, part] of splitAt(
    words,
    /,?\s*\b(?:and then|then|after that|afterwards)\b,?|[.;\n]\s+(?=[A-Z])/,
  ).entries()) {
    if (number > 0) planner.nextStep();
    for (const clause of splitAt(part, /,\s*(?:and\s+)?|\s+and\s+/)) planner.read(clause.slice(0, LONGEST_CLAUSE));
  }
  if (
    planner.isEmpty &&
    /\b(?:folder|director(?:y|ies)|project|repo|repository|code(?:base)?|workspace|package|files?|here|explore|overview)\b/i.test(
      request,
    )
  )
    planner.overview();
  return planner.isEmpty ? null : planner.plan();
}

/** Splits outside of backticks and quotes. */
function splitAt(text: string, separator: RegExp): string[] {
  const hidden: string[] = [];
  const covered = text.replace(
    /`[^`]*`|"[^"]*"|'[^']*'(?!\w)|\{[^{}]*\}/g,
    (quoted) => `\ue000${hidden.push(quoted) - 1}\ue001`,
  );
  const parts = covered
    .split(separator)
    .map((part) => part.replace(/\ue000(\d+)\ue001/g, (_, at) => hidden[Number(at)] ?? ""));
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

class Planner {
  readonly #tools: Map<string, ToolDefinition>;
  readonly #steps: DemoStep[] = [];
  readonly #missing = new Set<string>();
  #together: DemoCall[] = [];

  constructor(tools: readonly ToolDefinition[]) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  get isEmpty(): boolean {
    return this.#steps.length === 0 && this.#together.length === 0 && this.#missing.size === 0;
  }

  nextStep(): void {
    const calls = this.#together;
    this.#together = [];
    if (calls.length > 0) this.#steps.push(() => calls);
  }

  plan(): DemoPlan {
    this.nextStep();
    return { steps: this.#steps, missing: [...this.#missing] };
  }

  /** One wish, by the first rule that knows its words. Words that no rule knows are passed over. */
  read(clause: string): void {
    const rules = [
      this.#named,
      this.#bash,
      this.#write,
      this.#replace,
      this.#todo,
      this.#files,
      this.#grep,
      this.#readFiles,
      this.#delegate,
    ];
    rules.some((rule) => rule.call(this, clause));
  }

  /** Top of the folder and all its files, then what describes it. */
  overview(): void {
    this.nextStep();
    if (!this.#tools.has("glob")) {
      this.#call("read", fileArguments(["package.json", "README.md"]));
      return;
    }
    this.#call("glob", { pattern: "*" });
    this.#call("glob", { pattern: "**/*" });
    this.nextStep();
    if (!this.#tools.has("read")) return;
    this.#steps.push((results) => {
      const top = results.find(({ name, arguments: given }) => name === "glob" && given.pattern === "*");
      const names = top && !top.failed ? top.output.split("\n") : [];
      const telling = ["package.json", "pyproject.toml", "Cargo.toml", "go.mod", "README.md", "README", "readme.md"];
      const found = telling.filter((name) => names.includes(name)).slice(0, 2);
      return found.map((file) => ({ name: "read", arguments: fileArguments([file]) }));
    });
  }

  #call(name: string, given: JsonObject): true {
    if (this.#tools.has(name)) this.#together.push({ name, arguments: given });
    else this.#missing.add(name);
    return true;
  }

  /** A tool that is called by its own name: "use notes__add with {"text": "milk"}". */
  #named(clause: string): boolean {
    const others = [...this.#tools.keys()].filter((known) => !builtin.has(known));
    const name = others.find((known) => new RegExp(`(?:^|[\\s\`"'])${literal(known)}(?:$|[\\s\`"':,])`).test(clause));
    if (name === undefined || (!/[_-]/.test(name) && !/\b(?:use|call|tool)\b/i.test(clause))) return false;
    const tool = this.#tools.get(name);
    return (
      tool !== undefined && this.#call(name, argumentsFrom(clause.slice(clause.indexOf(name) + name.length), tool))
    );
  }

  #bash(clause: string): boolean {
    const quoted = /\b(?:run|execute|bash|shell|command)\b[^`]*`([^`]+)`/i.exec(clause)?.[1];
    const plain = /^(?:please\s+|can you\s+)?(?:run|execute)\s+(?:the\s+)?(?:command\s+)?([a-z][^`]*)$/i.exec(
      clause,
    )?.[1];
    const command = quoted ?? plain;
    return command !== undefined && this.#call("bash", { command: command.trim().replace(/[?.!]$/, "") });
  }

  #write(clause: string): boolean {
    const first = new RegExp(
      `\\b(?:write|create|make|save)\\b.*?\\b(${FILE})(?:\\s+(?:with|containing|saying|that says)|:)?\\s*(.*)$`,
      "is",
    ).exec(clause);
    const last = new RegExp(
      `\\b(?:write|save|put)\\s+(["'\`].+["'\`])\\s+(?:in)?to\\s+(?:the file\\s+)?[\`"']?(${FILE})`,
      "is",
    ).exec(clause);
    const path = last?.[2] ?? first?.[1];
    if (path === undefined) return false;
    const text = unquote((last?.[1] ?? first?.[2] ?? "").replace(/^(?:the\s+)?(?:text|content|words?)\b:?\s*/i, ""));
    const content = text === "" ? "Written by the demo model of Rotunda." : text;
    return this.#call("write", { file_path: path, content: `${content}\n` });
  }

  #replace(clause: string): boolean {
    const found = new RegExp(`\\breplace\\s+(.+?)\\s+(?:with|by)\\s+(.+?)\\s+in\\s+[\`"']?(${FILE})`, "is").exec(
      clause,
    );
    if (!found) return false;
    const [, old = "", fresh = "", path = ""] = found;
    return this.#call("edit", { file_path: path, edits: [{ old_string: unquote(old), new_string: unquote(fresh) }] });
  }

  #todo(clause: string): boolean {
    if (!/\bto-?dos?(?: list)?\b/i.test(clause) || !/\b(?:make|write|create|add|plan|set)\b/i.test(clause))
      return false;
    const listed = /\bto-?dos?\b(?:\s+list\b)?(?:\s+(?:for|of|to|with)\b)?\s*:?\s*(.*)$/i.exec(clause)?.[1] ?? "";
    const given = listed.split(/;|\/|\s+&\s+/).map((text) => text.trim());
    const texts = given.filter((text) => text !== "");
    const contents = texts.length > 0 ? texts : ["Look at the files", "Make the change", "Check the result"];
    const todos = contents.map((content, at) => ({
      content,
      status: at === 0 ? "in_progress" : "pending",
      activeForm: `Working on: ${content}`,
    }));
    return this.#call("TodoWrite", { todos });
  }

  #files(clause: string): boolean {
    const folder = /\b(?:in|under|inside)\s+[`"']?((?:[\w.@-]+\/)*[\w.@-]+)\/?[`"']?[\s?!]*$/i.exec(clause)?.[1];
    const where = folder && !/^(?:this|the|here|folder|project|repo|total|all)$/i.test(folder) ? { path: folder } : {};
    const glob = /(?:^|[\s`"'])((?:[\w.-]+\/)*(?:\*\*\/)?[\w.-]*\*[\w.*{},-]*)/.exec(clause)?.[1];
    if (glob !== undefined) return this.#call("glob", { pattern: glob, ...where });
    const kind = /\b(?:list|show|find|count|which|what|how many|name|give)\b.*?(?:\b(\w+)\s+)?\bfiles?\b/i.exec(clause);
    if (!kind) return false;
    const pattern = kinds[kind[1]?.toLowerCase() ?? ""] ?? extensionPattern(clause);
    // "What files are there?" is a question about the whole.
    if (pattern === undefined && !/\b(?:list|count|how many)\b/i.test(clause)) return false;
    return this.#call("glob", { pattern: pattern ?? "**/*", ...where });
  }

  #grep(clause: string): boolean {
    const found =
      /\b(?:find|search(?: for)?|grep(?: for)?|look for|where is|where are|count)\s+(?:all |every |the |any )*(.+?)(?:\s+(?:in|inside|under|within)\s+(.+?))?[?.!]*$/i.exec(
        clause,
      );
    if (!found?.[1]) return false;
    const place = unquote(found[2] ?? "").replace(/^(?:the |this )|\s+(?:folder|directory)$/gi, "");
    const everywhere =
      place === "" || /^(?:here|project|repo|repository|code|codebase|folder|workspace|all files)$/i.test(place);
    const word = unquote(found[1]).replace(/s? comments?$|^(?:word|text|string)\s+/gi, "");
    return this.#call("grep", { pattern: literal(unquote(word)), ...(everywhere ? {} : { path: place }) });
  }

  #readFiles(clause: string): boolean {
    if (/\b(?:npm|build|package|test)? ?scripts?\b/i.test(clause) && !/\bsay\b|\.\w/.test(clause))
      return this.#call("read", fileArguments(["package.json"]));
    const asks = /\b(?:read|open|show|print|cat|explain|summari[sz]e|describe|look at|check|review|what)\b/i.test(
      clause,
    );
    const names = clause.match(new RegExp(FILE, "g")) ?? [];
    return (asks || /^[`"']?\S+[`"']?$/.test(clause)) && names.length > 0 && this.#call("read", fileArguments(names));
  }

  #delegate(clause: string): boolean {
    const found = /\b(?:delegate|sub-?agent|explore)\b(.*)$/is.exec(clause);
    if (!found) return false;
    const tool = this.#tools.get("task");
    if (!tool) {
      this.overview();
      return true;
    }
    const properties = tool.input.properties as JsonObject | undefined;
    const types = (properties?.agent_type as JsonObject | undefined)?.enum;
    const known = Array.isArray(types) ? types.filter((type) => typeof type === "string") : [];
    const type = known.find((name) => name !== "general" && new RegExp(`\\b${literal(name)}\\b`, "i").test(clause));
    const rest = (found[1] ?? "").replace(/^\s*(?:to|:|the task of|a sub-?agent)\s*/gi, "").trim();
    // In other words than the request, or the sub-agent would delegate in turn.
    const task = /\b(?:find|list|read|search|count|grep|run)\b/i.test(rest)
      ? rest
      : "Give an overview of the project in this folder.";
    return this.#call("task", {
      agent_type: type ?? (known.includes("explore") ? "explore" : (known[0] ?? "general")),
      task,
      description: "Look around",
    });
  }
}

function fileArguments(names: readonly string[]): JsonObject {
  return { files: [...new Set(names)].slice(0, 8).map((file_path) => ({ file_path })) };
}

function extensionPattern(clause: string): string | undefined {
  const extension = /\.([a-z0-9]{1,5})\b(?:\s+files?|$)/i.exec(clause)?.[1];
  return extension === undefined ? undefined : `**/*.${extension}`;
}

function unquote(text: string): string {
  const trimmed = text.trim();
  return /^(["'`])[\s\S]*\1$/.test(trimmed) ? trimmed.slice(1, -1) : trimmed;
}

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Arguments for any tool: the JSON that the words hold, or `name=value`, or the words for what it requires. */
function argumentsFrom(words: string, tool: ToolDefinition): JsonObject {
  const json = /\{[\s\S]*\}/.exec(words)?.[0];
  if (json !== undefined) {
    try {
      return JSON.parse(json) as JsonObject;
    } catch {
      // Then they are words like others.
    }
  }
  const given: JsonObject = {};
  for (const [, name, value] of words.matchAll(/(\w+)\s*=\s*("[^"]*"|'[^']*'|\S+)/g))
    if (name !== undefined && value !== undefined) given[name] = typed(unquote(value), name, tool);
  if (Object.keys(given).length > 0) return given;
  const text = unquote(words.replace(/^[`"'\s:,]*(?:tool\b)?\s*(?:with|for|on|to|saying)?\s*/i, ""));
  const required = Array.isArray(tool.input.required) ? tool.input.required : [];
  for (const name of required) if (typeof name === "string") given[name] = typed(text, name, tool);
  return given;
}

function typed(value: string, name: string, tool: ToolDefinition): Json {
  const properties = tool.input.properties as JsonObject | undefined;
  const type = (properties?.[name] as JsonObject | undefined)?.type;
  if (type === "number" || type === "integer") return Number(value) || 0;
  if (type === "boolean") return value === "true";
  return type === "array" ? [value] : value;
}
