/**
 * A hostile MCP server: raw JSON-RPC over stdio, with one kind of misbehaviour per mode.
 *
 * Invariant: everything that reaches it is in its journal, one line each, written before it acts on it: so a
 * test can count how often a call really ran. It uses no MCP library: it must be able to break every rule.
 */
import { appendFileSync, readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Json, JsonObject } from "../types/json.ts";

export const hostileModes = [
  /** Behaves. */
  "none",
  "die-at-start",
  "die-on-call",
  /** Dies on the first call of its life story (as the journal tells it), behaves afterwards. */
  "die-once",
  "hang",
  /** Answers the handshake after `delay` milliseconds. */
  "slow-start",
  "never-starts",
  /** Colours, prose and broken JSON on stdout around every message. */
  "noise",
  /** Answers a call with a line that never ends. */
  "flood",
  /** Answers a call with endless short lines. */
  "chatter",
  "stderr-flood",
  "wrong-shape",
  /** 5,000 `list_changed` in five seconds. */
  "storm",
  "odd-names",
  "schema-bomb",
  /** Asks the client for sampling, elicitation and roots during a call. */
  "asks",
  /** Ignores the end of stdin, SIGTERM, SIGINT and SIGHUP. */
  "stubborn",
  "invalid-arguments",
  "internal-error",
  /** Results nested deeper than JSON.stringify bears. */
  "deep-result",
  "endless-pages",
  /** Knows no `initialize`. */
  "no-handshake",
] as const;

export type HostileMode = (typeof hostileModes)[number];

export interface HostileOptions {
  mode: HostileMode;
  /** File that gets one line for each thing that happens. */
  journal?: string;
  /** File with a JSON array of tools that is read at each listing and replaces the usual ones. */
  tools?: string;
  /** Milliseconds, for "slow-start". */
  delay?: number;
}

interface Message {
  id?: number | string;
  method?: string;
  params?: JsonObject;
  result?: Json;
  error?: JsonObject;
}

const echoTool = {
  name: "echo",
  description: "Says it again",
  inputSchema: { type: "object", properties: { text: { type: "string" } } },
};
const environmentTool = { name: "environment", description: "Names of its variables", inputSchema: { type: "object" } };
const announceTool = { name: "announce", description: "Says that its tools changed", inputSchema: { type: "object" } };
const countTool = { name: "count", description: "Counts to three, telling of it", inputSchema: { type: "object" } };

/** Serves until stdin ends, or for ever. */
export function runHostileServer(options: HostileOptions): void {
  new HostileServer(options).run();
}

class HostileServer {
  readonly #options: HostileOptions;

  constructor(options: HostileOptions) {
    this.#options = options;
  }

  run(): void {
    const { mode } = this.#options;
    this.#note(`start ${process.pid}`);
    if (mode === "die-at-start") {
      writeSync(2, "fatal: cannot open the database\n");
      process.exit(3);
    }
    if (mode === "stubborn") {
      for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => this.#note(signal));
      setInterval(() => undefined, 1000);
    }
    if (mode === "stderr-flood") setInterval(() => process.stderr.write(`${"e".repeat(64 * 1024)}\n`), 1);
    const lines = createInterface({ input: process.stdin });
    lines.on("line", (line) => this.#receive(JSON.parse(line) as Message));
    lines.on("close", () => this.#note("stdin ended"));
  }

  #note(line: string): void {
    if (this.#options.journal !== undefined) appendFileSync(this.#options.journal, `${line}\n`);
  }

  #send(message: Message): void {
    const line = JSON.stringify({ jsonrpc: "2.0", ...message });
    if (this.#options.mode === "noise") {
      process.stdout.write("\u001b[32mstarting up…\u001b[0m\n{broken json\n\n[1, 2\nnull\n");
      process.stdout.write(`${line}\r\n`);
    } else process.stdout.write(`${line}\n`);
  }

  #answer(message: Message, result: Json): void {
    if (message.id !== undefined) this.#send({ id: message.id, result });
  }

  #refuse(message: Message, code: number, text: string): void {
    if (message.id !== undefined) this.#send({ id: message.id, error: { code, message: text } });
  }

  #receive(message: Message): void {
    if (message.method === undefined) this.#note(`reply ${JSON.stringify(message.error ?? message.result)}`);
    else if (Object.hasOwn(this.#methods, message.method)) this.#methods[message.method]?.(message);
    else this.#refuse(message, -32601, `Method not found: ${message.method}`);
  }

  readonly #methods: Record<string, (message: Message) => void> = {
    initialize: (message) => this.#initialize(message),
    "notifications/initialized": () => {
      if (this.#options.mode === "storm") this.#storm();
    },
    "notifications/cancelled": ({ params }) => this.#note(`cancelled ${String(params?.requestId)}`),
    ping: (message) => this.#answer(message, {}),
    "tools/list": (message) => {
      this.#note("list");
      this.#answer(message, this.#list(message));
    },
    "tools/call": (message) => {
      this.#note(`call ${String(message.params?.name)} ${JSON.stringify(message.params?.arguments ?? {})}`);
      const behaviour = this.#calls[this.#options.mode];
      if (behaviour) behaviour(message);
      else this.#behave(message);
    },
  };

  readonly #calls: Partial<Record<HostileMode, (message: Message) => void>> = {
    "die-on-call": () => process.exit(7),
    "die-once": (message) => {
      if (this.#timesInJournal("call ") === 1) process.exit(7);
      this.#behave(message);
    },
    hang: () => undefined,
    flood: () => pour(Buffer.alloc(1024 * 1024, "x")),
    chatter: () => pour(Buffer.from("yes\n".repeat(256 * 1024))),
    "wrong-shape": (message) => this.#answer(message, { content: "this should have been a list" }),
    "deep-result": (message) => this.#answerDeep(message),
    asks: (message) => this.#ask(message),
    "invalid-arguments": (message) => this.#refuse(message, -32602, "Invalid arguments: text is required"),
    "internal-error": (message) => this.#refuse(message, -32603, "The database is on fire"),
  };

  #initialize(message: Message): void {
    const { mode, delay = 0 } = this.#options;
    const result = {
      protocolVersion: String(message.params?.protocolVersion),
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: "hostile", version: "1" },
    };
    if (mode === "no-handshake") this.#refuse(message, -32601, "Method not found");
    else if (mode === "slow-start") setTimeout(() => this.#answer(message, result), delay);
    else if (mode !== "never-starts") this.#answer(message, result);
  }

  #storm(): void {
    let sent = 0;
    const timer = setInterval(() => {
      for (let i = 0; i < 100; i++) this.#send({ method: "notifications/tools/list_changed" });
      sent += 100;
      if (sent >= 5000) clearInterval(timer);
    }, 100);
  }

  #list(message: Message): JsonObject {
    const { mode, tools } = this.#options;
    if (tools !== undefined) return { tools: JSON.parse(readFileSync(tools, "utf8")) as Json };
    const usual: Json[] = [echoTool, environmentTool, announceTool, countTool];
    if (mode === "odd-names") return { tools: [...usual, ...oddTools()] };
    if (mode === "schema-bomb") return { tools: [...usual, ...bombs()] };
    if (mode === "endless-pages")
      return {
        tools: [{ ...echoTool, name: `echo${usual.length}` }],
        nextCursor: `${String(message.params?.cursor)}.`,
      };
    return { tools: usual };
  }

  #timesInJournal(beginning: string): number {
    const { journal } = this.#options;
    if (journal === undefined) return 0;
    return readFileSync(journal, "utf8")
      .split("\n")
      .filter((line) => line.startsWith(beginning)).length;
  }

  #answerDeep(message: Message): void {
    const depth = 20_000;
    const deep = `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
    process.stdout.write(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[],"structuredContent":${deep}}}\n`);
  }

  #ask(message: Message): void {
    this.#send({ id: "s1", method: "sampling/createMessage", params: { messages: [], maxTokens: 10 } });
    this.#send({ id: "e1", method: "elicitation/create", params: { message: "Your password?", requestedSchema: {} } });
    this.#send({ id: "r1", method: "roots/list" });
    setTimeout(() => this.#behave(message), 300);
  }

  #behave(message: Message): void {
    const { name, arguments: input, _meta: meta } = message.params ?? {};
    const values = (input ?? {}) as JsonObject;
    const say = (text: string) => this.#answer(message, { content: [{ type: "text", text }] });
    switch (name) {
      case "echo":
        say(String(values.text ?? ""));
        break;
      case "environment":
        say(JSON.stringify(process.env));
        break;
      case "announce":
        say("announced");
        this.#send({ method: "notifications/tools/list_changed" });
        break;
      case "count":
        this.#count(((meta ?? {}) as JsonObject).progressToken ?? null);
        setTimeout(() => say("three"), 600);
        break;
      default:
        say(`${String(name)} was called with ${JSON.stringify(values)}`);
    }
  }

  #count(progressToken: Json): void {
    for (let progress = 1; progress <= 3; progress++) {
      const params = { progressToken, progress, total: 3, message: `at ${progress}` };
      setTimeout(() => this.#send({ method: "notifications/progress", params }), progress * 150);
    }
  }
}

function pour(block: Buffer): void {
  const more = () => {
    while (process.stdout.write(block));
    process.stdout.once("drain", more);
  };
  more();
}

function oddTools(): Json[] {
  const names = [
    "a.b",
    "a b",
    "naïve",
    "名前",
    "with__inside",
    "__leading",
    "trailing__",
    "x".repeat(200),
    `${"x".repeat(199)}y`,
    "emoji😀",
    "slash/path",
    "new\nline",
    "_0123456789ab",
  ];
  return names.map((name) => ({ name, description: "odd", inputSchema: { type: "object" } }));
}

function bombs(): Json[] {
  let deep: JsonObject = { type: "string" };
  for (let i = 0; i < 400; i++) deep = { anyOf: [deep, { type: "number" }] };
  const wide: JsonObject = {};
  for (let i = 0; i < 30_000; i++) wide[`p${i}`] = { type: "string" };
  return [
    { name: "deep", inputSchema: deep },
    { name: "wide", inputSchema: { type: "object", properties: wide } },
    { name: "long", inputSchema: { type: "object", description: "x".repeat(300 * 1024) } },
    { name: "remote", inputSchema: { $ref: "http://127.0.0.1:9/schema.json" }, outputSchema: { pattern: "(a+)+$" } },
    { name: "backtracking", inputSchema: { type: "object", properties: { a: { pattern: "^(a|a?)+$" } } } },
    { name: "array", inputSchema: ["not", "an", "object"] },
    { name: 7, inputSchema: { type: "object" } },
    "not even an object",
  ];
}
