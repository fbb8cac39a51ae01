/**
 * Schema: the tables, and the steps from each released schema to the next.
 *
 * Invariant: a step, once released, never changes. All steps that are due run in one transaction, and
 * `user_version` counts those that ran.
 *
 * responses  one row per node of the tree; `body` is JSON of what nobody searches by
 * entries    its items; `key` is number << 24 | side << 23 | position (side 0: input, 1: output)
 * events     its log, one row per commit: `key` is number << 24 | first, `body` holds first..last (see codec.ts)
 * outputs    the whole of tool outputs that were cut for the model
 * Times are milliseconds since the epoch. The keys are packed so that each of the two large tables is one tree
 * that grows at its end: a commit touches half the pages that it would with an index beside each.
 */

export const migrations: readonly string[] = [
  `
  CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    previous_response_id TEXT,
    caller_response_id TEXT,
    caller_item_id TEXT,
    conversation_id TEXT,
    status TEXT NOT NULL,
    body TEXT NOT NULL,
    owner TEXT,
    fence INTEGER NOT NULL DEFAULT 1,
    lease_until INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    hash TEXT
  );
  CREATE INDEX responses_previous ON responses (previous_response_id) WHERE previous_response_id IS NOT NULL;
  CREATE INDEX responses_caller ON responses (caller_response_id) WHERE caller_response_id IS NOT NULL;
  CREATE INDEX responses_open ON responses (status) WHERE ended_at IS NULL;
  CREATE TABLE entries (
    key INTEGER PRIMARY KEY,
    turn INTEGER NOT NULL,
    item TEXT NOT NULL,
    meta TEXT NOT NULL
  );
  CREATE TABLE events (
    key INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    body TEXT NOT NULL
  );
  CREATE TABLE outputs (
    item_id TEXT PRIMARY KEY,
    response_id TEXT NOT NULL,
    text TEXT NOT NULL
  );
  CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    name TEXT,
    title TEXT NOT NULL,
    head TEXT,
    workspace TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX conversations_name ON conversations (name) WHERE name IS NOT NULL;
  CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    response_id TEXT NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX approvals_pending ON approvals (response_id) WHERE status = 'pending';
  CREATE TABLE rules (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    holder TEXT NOT NULL,
    rule TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE controls (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    response_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT,
    items TEXT
  );
  `,
];
