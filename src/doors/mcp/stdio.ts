/**
 * MCP over stdin and stdout: `rotunda mcp`.
 *
 * Invariant: stdout has messages of the protocol and nothing else; when stdin ends, what was asked is still answered
 * (a turn that takes long with its id), and then the connection ends. A turn is not cancelled by that.
 */
import { PassThrough, type Readable, type Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { isJSONRPCRequest, type JSONRPCMessage } from "@modelcontextprotocol/server";
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

export function openMcpStdio(options: StdioOptions): OpenStdio {
  const { input, output, caller, version, oldNames, stateDirectory, tell } = options;
  const codec = codecOf(() => signingKey(stateDirectory), caller);
  const leaving = new AbortController();
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  // The end of stdin is kept back from the SDK: it would leave unanswered what was asked last.
  const heard = new PassThrough();
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
