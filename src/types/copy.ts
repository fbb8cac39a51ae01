/**
 * Copies: what goes from one database to another, as the texts that are stored.
 *
 * Invariant: the hash of a response is taken over these very texts, so that it is the same in every database; whatever
 * does not fit its hash, or its parent's, is never pasted.
 */

/** An item and what stands beside it. `side` 0: input, 1: output. */
export interface EntryCopy {
  side: number;
  position: number;
  turn: number;
  item: string;
  meta: string;
}

/** A run of the log's events. */
export interface EventsCopy {
  first: number;
  last: number;
  body: string;
}

/** A response with all that belongs to it. Of a deleted one there is what is left of it: without a log, perhaps only its hash. */
export interface ResponseCopy {
  id: string;
  owner: string;
  previous_response_id: string | null;
  /** Of the response that it goes on from. */
  parent_hash: string | null;
  caller_response_id: string | null;
  caller_item_id: string | null;
  conversation_id: string | null;
  status: string;
  /** Empty: its content was erased. */
  body: string;
  created_at: number;
  /** Null: it has not ended. Its content is then left out, and it cannot be pasted. */
  ended_at: number | null;
  deleted_at: number | null;
  hash: string | null;
  entries: EntryCopy[];
  events: EventsCopy[];
  /** The whole of tool outputs that were cut for the model. */
  outputs: { item_id: string; text: string }[];
  approvals: { id: string; status: string; body: string }[];
}

export interface FoundCopy {
  /** Its place in the database: whatever it stands on (parent, caller) has a lower one. */
  number: number;
  copy: ResponseCopy;
  /** Why it cannot be trusted: it does not fit its hash, or its log does not fit its items. Null: it is sound. */
  fault: string | null;
}

/** "renamed": its name was taken. "moved": a pointer that was here goes on. "left": it stays out, and why. */
export type Pasted =
  | { kind: "pasted" | "known" | "moved" }
  | { kind: "renamed"; to: string }
  | { kind: "left"; why: string };

/** The small tables, in the order in which they are copied. */
export const copiedTables = [
  "conversations",
  "tokens",
  "rules",
  "budgets",
  "usage",
  "schedules",
  "idempotency",
  "audit",
] as const;

export type CopiedTable = (typeof copiedTables)[number];

/** A row of a small table, by column. */
export type RecordCopy = Record<string, string | number | null>;

/** Which responses: the next ones after a number, in the order of their numbers; or these. */
export type CopyWish =
  | { after: number; upTo: number; limit: number }
  | { numbers: readonly number[] }
  | { ids: readonly string[] };

export interface Copying {
  /** The highest number of a response; 0: there is none. */
  last(): Promise<number>;
  /**
   * Numbers of these responses and of all that belongs to them: what they go on from, and sub-agents. `whole`: also
   * everything that goes on from any of it. Ascending.
   */
  belonging(ids: readonly string[], whole: boolean): Promise<number[]>;
  /** In the order of their numbers. */
  responses(wish: CopyWish): Promise<FoundCopy[]>;
  /** The next rows of a small table, by key; `after` is the last row of the page before. */
  records(table: CopiedTable, after: RecordCopy | undefined, limit: number): Promise<RecordCopy[]>;
  /**
   * Writes responses that are not here yet, parents first, each whole or not at all. Throws `storage_damaged` at the first
   * that does not fit its hash or its parent's, or is here as another one; what came before it stays.
   */
  paste(copies: readonly ResponseCopy[]): Promise<Pasted[]>;
  /** Writes rows whose key is not here yet. Throws `storage_damaged` where one cannot be what was stored. */
  pasteRecords(table: CopiedTable, rows: readonly RecordCopy[]): Promise<Pasted[]>;
  /** At the end: what came as deleted, and nothing that came needs, is erased. */
  settle(): Promise<void>;
}
