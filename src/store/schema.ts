/**
 * Schema: the tables, and the steps from each released schema to the next.
 *
 * Invariant: a step, once released, never changes. All steps that are due run in one transaction, and
 * `user_version` counts those that ran.
 *
 * responses      one row per node of the tree; `body` is JSON of what nobody searches by. `deleted_at`: only `path` still
 *                gives it. An empty body: erased (see sqlite-erase.ts)
 * entries        its items; `key` is number << 24 | side << 23 | position (side 0: input, 1: output)
 * events         its log, one row per commit: `key` is number << 24 | first, `body` holds first..last (see codec.ts)
 * tail           what of the log is not in `events` yet: deltas of many responses, one row per commit (see sqlite-tail.ts)
 * outputs        the whole of tool outputs that were cut for the model
 * conversations  `borrowed` is 1 where the head is a response of another conversation, so that those that point at a
 *                response are found without an index that every turn would have to keep
 * audit          the chain of hashes
 * audit_end      one row: number and hash of the last record that was ever added to it (see sqlite-audit.ts)
 * erasure        one row: how many erasures there were, and how many of them are out of the write-ahead log
 * erasing        numbers of deleted responses of which something is left to erase
 * subscriptions  who is told what becomes of outermost responses; `target` is a digest, `events` a JSON list or null: all
 * outbox         one row for each event and target that it has not reached (see sqlite-outbox.ts)
 * budgets        what is used of each budget in its period; `is_set`: its limits are a person's and not the configuration's
 * reservations   what calls that are under way will use, by budget (see sqlite-budgets.ts)
 * schedules      `next_at`: null where nothing is due any more
 * usage          tokens and cost of what ended, by owner and day (UTC, days since the epoch); outlives erasure
 *
 * Times are milliseconds since the epoch. The keys are packed so that each of the two large tables is one tree
 * that grows at its end: a commit touches half the pages that it would with an index beside each. For the same
 * reason responses are listed by their number, which every index holds anyhow, and not by their id; those of the
 * machine's own user are in no index by owner (newest first, they are a walk along the table); and what every turn
 * writes is made first, so that it lies together.
 */

export const migrations: readonly string[] = [
  `
  CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    previous_response_id TEXT,
    caller_response_id TEXT,
    caller_item_id TEXT,
    conversation_id TEXT,
    status TEXT NOT NULL,
    body TEXT NOT NULL,
    process TEXT,
    fence INTEGER NOT NULL DEFAULT 1,
    lease_until INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    deleted_at INTEGER,
    hash TEXT
  );
  CREATE INDEX responses_open ON responses (status) WHERE ended_at IS NULL;
  CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT,
    title TEXT NOT NULL,
    head TEXT,
    borrowed INTEGER NOT NULL,
    workspace TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX conversations_used ON conversations (owner, updated_at);
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
  CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,
    body TEXT NOT NULL
  );
  CREATE INDEX responses_previous ON responses (previous_response_id) WHERE previous_response_id IS NOT NULL;
  CREATE INDEX responses_caller ON responses (caller_response_id) WHERE caller_response_id IS NOT NULL;
  CREATE INDEX responses_owner ON responses (owner) WHERE deleted_at IS NULL AND owner <> 'local';
  CREATE UNIQUE INDEX conversations_name ON conversations (owner, name) WHERE name IS NOT NULL;
  CREATE INDEX conversations_borrowed ON conversations (head) WHERE borrowed = 1;
  CREATE TABLE outputs (
    item_id TEXT PRIMARY KEY,
    response_id TEXT NOT NULL,
    text TEXT NOT NULL
  );
  CREATE INDEX outputs_response ON outputs (response_id);
  CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    response_id TEXT NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX approvals_response ON approvals (response_id);
  CREATE INDEX approvals_pending ON approvals (id) WHERE status = 'pending';
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
  CREATE TABLE idempotency (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    response_id TEXT,
    status INTEGER,
    answer TEXT,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
  ) WITHOUT ROWID;
  CREATE INDEX idempotency_expiry ON idempotency (expires_at);
  CREATE INDEX idempotency_answers ON idempotency (response_id) WHERE response_id IS NOT NULL AND answer IS NOT NULL;
  CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    body TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE audit_end (
    number INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    hash TEXT NOT NULL
  );
  INSERT INTO audit_end VALUES (1, 0, '${"0".repeat(64)}');
  CREATE TABLE erasure (
    number INTEGER PRIMARY KEY,
    done INTEGER NOT NULL,
    truncated INTEGER NOT NULL
  );
  INSERT INTO erasure VALUES (1, 0, 0);
  CREATE TABLE erasing (
    number INTEGER PRIMARY KEY
  );
  `,
  `
  CREATE TABLE tail (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    writer TEXT NOT NULL,
    body TEXT NOT NULL
  );
  `,
  `
  CREATE TABLE subscriptions (
    target TEXT PRIMARY KEY,
    events TEXT,
    until INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE outbox (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    target TEXT NOT NULL,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    process TEXT,
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL
  );
  CREATE INDEX outbox_due ON outbox (target, due);
  ALTER TABLE approvals ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
  CREATE TABLE usage (
    owner TEXT NOT NULL,
    day INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    PRIMARY KEY (owner, day)
  ) WITHOUT ROWID;
  `,
  `
  CREATE TABLE budgets (
    key TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    period TEXT NOT NULL,
    is_set INTEGER NOT NULL,
    since INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    seconds REAL NOT NULL,
    agents INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE reservations (
    key TEXT NOT NULL,
    response_id TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    agents INTEGER NOT NULL,
    PRIMARY KEY (key, response_id)
  ) WITHOUT ROWID;
  CREATE INDEX reservations_response ON reservations (response_id);
  CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    next_at INTEGER,
    body TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX schedules_name ON schedules (owner, name);
  CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
  CREATE INDEX conversations_kept ON conversations (id) WHERE instr(metadata, '"keep":') > 0;
  `,
];
