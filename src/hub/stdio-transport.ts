/**
 * Stdio transport: JSON-RPC lines to and from a process that we start.
 *
 * Invariant: memory is bounded by one line of 10 MiB and 64 kB of stderr whatever the process prints; what is
 * not a message is skipped and counted; `send` rejects only when the message cannot have been read; the
 * close callback comes after the last message, exactly once.
 */
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { RunningProcess } from "../util/process-tree.ts";
import { CallFailure } from "./failures.ts";
import type { LaunchCommand } from "./hub-types.ts";
import { JsonMeter } from "./json-meter.ts";
import { endServer, startServer, within } from "./server-process.ts";

const MEBIBYTE = 1024 * 1024;
const MAX_LINE = 10 * MEBIBYTE;
const STDERR_KEPT = 64 * 1024;

/** Bytes between two answers after which a server is no longer talking to us but flooding us. */
const MAX_UNASKED = 32 * MEBIBYTE;

/** Notifications and requests of a server that are looked at: a second, and at once. */
const RATE = 1000;
const BURST = 2000;
/** Milliseconds of one turn of the event loop that one server may take. */
const TURN = 20;
/** Milliseconds for the last output of a process that is dead. */
const DRAIN = 500;

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport["onmessage"];
  /** Lines of stdout that were no messages. */
  skipped = 0;
  /** Why the process ended, once it has. */
  ending: string | undefined;
  /** It was killed because it flooded us. */
  flooded = false;
  /** Hears what the process writes beside its messages. */
  log: { stderr(piece: Buffer): void; skipped(line: Buffer): void } | undefined;

  readonly #command: LaunchCommand;
  #running: RunningProcess | undefined;
  #pending: Buffer[] = [];
  #pendingSize = 0;
  #unasked = 0;
  readonly #awaited = new Set<string | number>();
  #allowance = BURST;
  #refilled = 0;
  readonly #meter = new JsonMeter();
  #turnEnds = 0;
  #postponed = false;
  #stderr: Buffer[] = [];
  #stderrSize = 0;
  #finished = false;
  /** It has written a message. */
  #spoke = false;

  constructor(command: LaunchCommand) {
    this.#command = command;
  }

  get pid(): number | undefined {
    return this.#finished ? undefined : this.#running?.child.pid;
  }

  /** The last 64 kB that the process wrote to stderr. */
  get stderr(): string {
    return Buffer.concat(this.#stderr).subarray(-STDERR_KEPT).toString("utf8");
  }

  async start(): Promise<void> {
    const { command, cwd } = this.#command;
    const running = startServer(this.#command);
    this.#running = running;
    const { child } = running;
    child.stdout?.on("data", (chunk: Buffer) => this.#receive(chunk));
    child.stderr?.on("data", (chunk: Buffer) => this.#keepStderr(chunk));
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", () => undefined);
    child.once("exit", (code, signal) => {
      this.ending ??= signal ? `was ended by ${signal}` : `exited with code ${code}`;
    });
    child.once("close", () => this.#finish());
    // Once all its descendants are dead nobody holds the pipes: what is left in them is read within this time.
    void running.ended.then(() => setTimeout(() => this.#finish(), DRAIN).unref());
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.on("error", (error) => {
        if (child.pid !== undefined) return;
        this.#finished = true;
        const missing = "code" in error && error.code === "ENOENT";
        reject(missing ? new Error(`command not found: ${command} (in ${cwd})`) : error);
      });
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#running?.child.stdin;
    if (this.#finished || !stdin?.writable) return Promise.reject(notSent(this.ending));
    if ("method" in message && "id" in message) this.#awaited.add(message.id);
    const line = `${JSON.stringify(message)}\n`;
    return new Promise((resolve, reject) => {
      // A failed write means that the line's end was never delivered: nobody can have read the message.
      stdin.write(line, (error) => (error ? reject(notSent(this.ending ?? "no longer reads")) : resolve()));
    });
  }

  /** Resolves when the process has ended or so many milliseconds are over. */
  async endsWithin(milliseconds: number): Promise<void> {
    if (this.#running && this.ending === undefined) await within(this.#running.ended, milliseconds);
  }

  async close(): Promise<void> {
    if (this.#running && !this.#finished) {
      this.ending ??= "was closed";
      // What has never said a word does not hear the end of its stdin either.
      await endServer(this.#running, this.#spoke ? "polite" : "at once");
    }
    this.#finish();
  }

  /** Reads the lines of a chunk. What does not fit into this turn of the event loop waits for the next one. */
  #receive(chunk: Buffer): void {
    if (this.flooded || this.#finished) return;
    if (this.#turnEnds === 0) {
      this.#turnEnds = performance.now() + TURN;
      setImmediate(() => {
        this.#turnEnds = 0;
      });
    }
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const part = chunk.subarray(start, end);
      this.#meter.feed(part);
      start = end + 1;
      const line = this.#pendingSize === 0 ? part : Buffer.concat([...this.#pending, part]);
      this.#pending = [];
      this.#pendingSize = 0;
      this.#readLine(line);
      if (this.flooded) return;
      if (start < chunk.length && performance.now() > this.#turnEnds) {
        this.#postpone(chunk.subarray(start));
        return;
      }
    }
    if (start === chunk.length) return;
    this.#meter.feed(chunk, start);
    // A copy, so that a short rest does not keep its whole chunk alive.
    this.#pending.push(Buffer.from(chunk.subarray(start)));
    this.#pendingSize += chunk.length - start;
    if (this.#pendingSize > MAX_LINE) this.#flood(`wrote a line of more than ${MAX_LINE / MEBIBYTE} MiB`);
  }

  #postpone(rest: Buffer): void {
    const stdout = this.#running?.child.stdout;
    stdout?.pause();
    this.#postponed = true;
    setImmediate(() => {
      this.#postponed = false;
      this.#receive(rest);
      if (!this.#postponed) stdout?.resume();
    });
  }

  #flood(why: string): void {
    this.flooded = true;
    this.#pending = [];
    this.#pendingSize = 0;
    this.ending = `${why} and was killed`;
    void this.#running?.kill();
  }

  #readLine(line: Buffer): void {
    const messages = readMessages(line, this.#meter.excess);
    this.#meter.reset();
    this.#unasked += line.length + 1;
    for (const message of messages) {
      if (isMessage(message) && this.#admits(message)) {
        this.#spoke = true;
        this.onmessage?.(message);
      } else {
        this.skipped++;
        if (message === undefined) this.log?.skipped(line);
      }
    }
    if (this.#unasked > MAX_UNASKED) this.#flood(`wrote ${MAX_UNASKED / MEBIBYTE} MiB that nobody had asked for`);
  }

  /** Answers that we wait for, and of everything else no more than a bounded rate: each costs far more than its bytes. */
  #admits(message: JSONRPCMessage): boolean {
    if (!("method" in message)) {
      // Some servers send the number back as text.
      const { id } = message;
      if (id === undefined || !(this.#awaited.delete(id) || this.#awaited.delete(Number(id)))) return false;
      this.#unasked = 0;
      return true;
    }
    const now = performance.now();
    this.#allowance = Math.min(BURST, this.#allowance + ((now - this.#refilled) / 1000) * RATE);
    this.#refilled = now;
    if (this.#allowance < 1) return false;
    this.#allowance--;
    return true;
  }

  #keepStderr(chunk: Buffer): void {
    this.log?.stderr(chunk);
    this.#stderr.push(chunk);
    this.#stderrSize += chunk.length;
    // Compacted only now and then: a flood of short lines must not copy the whole tail for each of them.
    if (this.#stderrSize <= 2 * STDERR_KEPT && this.#stderr.length <= 256) return;
    const kept = Buffer.concat(this.#stderr).subarray(-STDERR_KEPT);
    this.#stderr = [Buffer.from(kept)];
    this.#stderrSize = kept.length;
  }

  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    const child = this.#running?.child;
    for (const stream of [child?.stdin, child?.stdout, child?.stderr]) stream?.destroy();
    // Writes that were still waiting fail first: their calls are known not to have run.
    setImmediate(() => this.onclose?.());
  }
}

function notSent(why: string | undefined): CallFailure {
  const message = why === undefined ? "the server is not running" : `the server ${why}`;
  return new CallFailure("not_run", message, { sessionLost: true });
}

/** The messages of a line (the 2025-03 protocol has batches); `undefined` stands for what is none. */
function readMessages(line: Buffer, excess: string | undefined): unknown[] {
  // Looked at as bytes: a flood of noise must not cost a string for each of its lines.
  let first = 0;
  while (first < line.length && (line[first] ?? 0) <= 32) first++;
  if (first === line.length) return [];
  if (line[first] !== 123 && line[first] !== 91) return [undefined];
  if (excess !== undefined) return [refusal(line, excess)];
  try {
    const parsed: unknown = JSON.parse(line.toString("utf8", first));
    return Array.isArray(parsed) ? parsed : [parsed];
  } catch {
    return [undefined];
  }
}

function isMessage(value: unknown): value is JSONRPCMessage {
  return typeof value === "object" && value !== null && "jsonrpc" in value && value.jsonrpc === "2.0";
}

/** Stands in for an answer over the bounds: an error for the call that it belongs to, if its id shows. */
function refusal(line: Buffer, excess: string): unknown {
  const ends = `${line.toString("latin1", 0, 256)}\n${line.toString("latin1", Math.max(256, line.length - 256))}`;
  const id = /"id"\s*:\s*(\d{1,15})/.exec(ends)?.[1];
  if (id === undefined) return undefined;
  return { jsonrpc: "2.0", id: Number(id), error: { code: -32603, message: `the server's answer ${excess}` } };
}
