/**
 * Runner: what runs the responses that their door leaves to it: this process when it has room again, or any worker.
 *
 * Invariant: a response that it was given is durable and has no process; it is run once at a time, because whoever runs
 * it claims it first.
 */
import type { ResponseNode } from "./response.ts";
import type { NewResponse } from "./store.ts";

/** Of a database's transaction: what a queue needs to put a job in beside the response. */
export interface SqlTransaction {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

export interface Runner {
  /** Whether a new response is left to it. `running`: how many this process runs. */
  takes(node: ResponseNode, running: number): boolean;
  /** Whether it will sooner or later be run by somebody, though nobody has it at this moment. */
  keeps(node: ResponseNode): boolean;
  /** In the transaction that creates a response without a process. Not called by databases that have no transaction for it. */
  enqueue?(transaction: SqlTransaction, response: NewResponse): Promise<void>;
  /** A response that `takes` was true for is durable. */
  created(node: ResponseNode): void;
  /** One that has no process any more is to go on: after an answer, a raised budget, the end of what it stood behind. */
  submit(node: ResponseNode): Promise<void>;
  /** One has left this process, or only stands behind another one: `running` are left. */
  left(node: ResponseNode, running: number): void;
  close(): Promise<void>;
}

export interface WorkOptions {
  /** Responses that this process runs at once. */
  concurrency: number;
  /** Only those of these profiles; absent: all. */
  profiles?: readonly string[];
  /** Runs one to where it leaves this process. `last`: nobody will try again. Rejects: somebody shall, later. */
  run(responseId: string, last: boolean): Promise<void>;
}

export interface Queue extends Required<Runner> {
  /** Begins to run what is in the queue. */
  work(options: WorkOptions): Promise<void>;
  /** Takes no more jobs; resolves when those under way have left. */
  drain(): Promise<void>;
  /** Responses that wait for a worker, by profile. */
  depth(): Promise<Record<string, number>>;
}
