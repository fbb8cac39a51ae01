/**
 * MCP over stdin and stdout: `rotunda mcp`.
 *
 * Invariant: stdout has messages of the protocol and nothing else; when stdin ends, what was asked is still answered
 * (a turn that takes long with its id), and then the connection ends. A turn is not cancelled by that.
 */
import { type Readable, Transform, type TransformCallback, type Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  deserializeMessage,
  INVALID_REQUEST,
  isJSONRPCRequest,
  type JSONRPCMessage,
  PARSE_ERROR,
} from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { McpCaller } from "../../types/mcp.ts";
import { once } from "../../util/once.ts";
import { rotundaServer } from "./rotunda-server.ts";
import { codecOf, signingKey } from "./signing.ts";

export interface StdioOptions {
  input: Readable;
  output: Writable;
  version: string;
  caller: McpCaller;
  /** Its key signs the states. */
  stateDirectory: string;
  oldNames: boolean;
  /** What goes wrong with the connection, in one line. */
  tell(text: string): void;
}

export interface OpenStdio {
  /** Resolves when the client has gone, or `close` was called. */
  closed: Promise<void>;
  close(): void;
}

/** Characters of one message. */
const MESSAGE = 64 * 1_024 * 1_024;
const LINE_END = 0x0a;
/** Milliseconds in which what was asked is answered after stdin has ended. */
const LAST_ANSWERS = 5_000;

class Transport extends StdioServerTransport {
  /** Requests without an answer so far. */
  readonly open = new Set<string | number>();

  override async start(): Promise<void> {
    const { onmessage } = this;
    this.onmessage = (message) => {
      if (isJSONRPCRequest(message)) this.open.add(message.id);
      onmessage?.(message);
    };
    await super.start();
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(message);
    if ("id" in message && message.id !== undefined && !("method" in message)) this.open.delete(message.id);
  }
}

/** Passes on whole lines that are messages. What is none is answered as JSON-RPC has it: the SDK would be silent. */
class Lines extends Transform {
  readonly #answer: (line: string) => void;
  #begun: Buffer[] = [];
  #length = 0;

  constructor(answer: (line: string) => void) {
    super();
    this.#answer = answer;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let rest = chunk;
    for (let end = rest.indexOf(LINE_END); end >= 0; end = rest.indexOf(LINE_END)) {
      this.#line(Buffer.concat([...this.#begun, rest.subarray(0, end + 1)]));
      this.#begun = [];
      this.#length = 0;
      rest = rest.subarray(end + 1);
    }
    this.#length += rest.length;
    if (rest.length > 0) this.#begun.push(rest);
    // Beyond the bound the SDK ends the connection.
    if (this.#length > MESSAGE) this.push(Buffer.concat(this.#begun.splice(0)));
    done();
  }

  #line(line: Buffer): void {
    const text = line.toString("utf8").trim();
    if (text === "") return;
    const fault = faultOf(text);
    if (fault === undefined) this.push(line);
    else if (fault !== "response") this.#answer(`${JSON.stringify({ jsonrpc: "2.0", ...fault })}\n`);
  }
}

/** Undefined: it is a message. A response that is none is not answered: the two sides would never come to an end. */
function faultOf(text: string) {
  try {
    deserializeMessage(text);
    return undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return { id: null, error: { code: PARSE_ERROR, message: "Parse error" } };
  }
  const value = JSON.parse(text) as { id?: unknown; method?: unknown; result?: unknown; error?: unknown } | null;
  if (value?.method === undefined && (value?.result ?? value?.error) !== undefined) return "response";
  const id = typeof value?.id === "string" || typeof value?.id === "number" ? value.id : null;
  return { id, error: { code: INVALID_REQUEST, message: "Invalid Request" } };
}

export function openMcpStdio(options: StdioOptions): OpenStdio {
  const { input, output, caller, version, oldNames, stateDirectory, tell } = options;
  const codec = codecOf(() => signingKey(stateDirectory), caller);
  const leaving = new AbortController();
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  // The end of stdin is kept back from the SDK: it would leave unanswered what was asked last.
  const heard = new Lines((line) => output.write(line));
  input.pipe(heard, { end: false });
  const transport = new Transport(heard, output, { maxBufferSize: MESSAGE });
  const handle = serveStdio(
    ({ era }) => rotundaServer({ caller, era, codec, version, oldNames, leaving: leaving.signal }),
    { transport, onerror: (error) => tell(error.message) },
  );
  const end = once(async () => {
    leaving.abort();
    for (let waited = 0; waited < LAST_ANSWERS && transport.open.size > 0; waited += 10) await sleep(10);
    await handle.close();
    resolve();
  });
  const close = () => void end().catch((error: unknown) => tell(String(error)));
  for (const event of ["end", "close", "error"]) input.once(event, close);
  output.once("error", close);
  return { closed, close };
}
