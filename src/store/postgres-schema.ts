/**
 * Schema on Postgres, and the steps from each released schema to the next. The same rows as in schema.ts, in the same
 * canonical texts: the hash of a node is the same on both databases.
 *
 * Invariant: a step, once released, never changes. All steps that are due run in one transaction, and the table
 * `migrations` holds the number of each that ran.
 *
 * What differs from SQLite:
 *   keys           columns of their own (number, side, position; number, first), not packed into one integer
 *   tail           there is none: deltas of many responses share a transaction, not a row
 *   marks          the last transaction of each connection that writes: what a lost COMMIT led to is read here
 *   processes      until when each process's leases hold, by the database's clock: one row to renew, however many it runs
 *   tokens, cost   of entries and responses: what their usage says, so that it can be summed without reading JSON (a text
 *                  with U+0000 cannot be read as JSON here)
 *   erasure        deleted rows are left to VACUUM, and so are their texts in the files
 *
 * `{name}` is a table of ours in its schema. Texts are compared as bytes (COLLATE "C"), as SQLite does it.
 */

export const migrations: readonly string[] = [
  `
  CREATE TABLE {responses} (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    owner text COLLATE "C" NOT NULL,
    previous_response_id text COLLATE "C",
    caller_response_id text COLLATE "C",
    caller_item_id text COLLATE "C",
    conversation_id text COLLATE "C",
    status text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    process text COLLATE "C",
    fence bigint NOT NULL,
    tokens bigint NOT NULL,
    cost double precision NOT NULL,
    created_at bigint NOT NULL,
    ended_at bigint,
    deleted_at bigint,
    hash text COLLATE "C"
  ) WITH (fillfactor = 80);
  CREATE INDEX responses_ending ON {responses} (reverse(id));
  CREATE INDEX responses_open ON {responses} (status, number) WHERE ended_at IS NULL;
  CREATE INDEX responses_process ON {responses} (process) WHERE ended_at IS NULL AND process IS NOT NULL;
  CREATE INDEX responses_previous ON {responses} (previous_response_id) WHERE previous_response_id IS NOT NULL;
  CREATE INDEX responses_caller ON {responses} (caller_response_id) WHERE caller_response_id IS NOT NULL;
  CREATE INDEX responses_owner ON {responses} (owner, number) WHERE deleted_at IS NULL AND owner <> 'local';
  CREATE TABLE {marks} (
    name text COLLATE "C" PRIMARY KEY,
    sequence bigint NOT NULL,
    used timestamptz NOT NULL
  ) WITH (fillfactor = 50);
  CREATE TABLE {processes} (
    name text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL
  ) WITH (fillfactor = 50);
  CREATE TABLE {conversations} (
    id text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    title text COLLATE "C" NOT NULL,
    head text COLLATE "C",
    borrowed smallint NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
  );
  CREATE INDEX conversations_ending ON {conversations} (reverse(id));
  CREATE INDEX conversations_used ON {conversations} (owner, updated_at, id);
  CREATE UNIQUE INDEX conversations_name ON {conversations} (owner, name) WHERE name IS NOT NULL;
  CREATE INDEX conversations_kept ON {conversations} (id) WHERE strpos(metadata, '"keep":') > 0;
  CREATE INDEX conversations_borrowed ON {conversations} (head) WHERE borrowed = 1;
  CREATE TABLE {entries} (
    number bigint NOT NULL,
    side smallint NOT NULL,
    position integer NOT NULL,
    turn integer NOT NULL,
    item text COLLATE "C" NOT NULL,
    meta text COLLATE "C" NOT NULL,
    tokens bigint,
    cost double precision,
    PRIMARY KEY (number, side, position)
  );
  CREATE TABLE {events} (
    number bigint NOT NULL,
    first integer NOT NULL,
    last integer NOT NULL,
    body text COLLATE "C" NOT NULL,
    PRIMARY KEY (number, first)
  );
  CREATE TABLE {audit} (
    sequence bigint PRIMARY KEY,
    hash text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL
  );
  CREATE TABLE {audit_end} (
    number smallint PRIMARY KEY,
    sequence bigint NOT NULL,
    hash text COLLATE "C" NOT NULL
  );
  INSERT INTO {audit_end} VALUES (1, 0, '${"0".repeat(64)}');
  CREATE TABLE {outputs} (
    item_id text COLLATE "C" PRIMARY KEY,
    response_id text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL
  );
  CREATE INDEX outputs_ending ON {outputs} (reverse(item_id));
  CREATE INDEX outputs_response ON {outputs} (response_id);
  CREATE TABLE {approvals} (
    id text COLLATE "C" PRIMARY KEY,
    response_id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    told smallint NOT NULL DEFAULT 0,
    body text COLLATE "C" NOT NULL
  );
  CREATE INDEX approvals_response ON {approvals} (response_id);
  CREATE INDEX approvals_pending ON {approvals} (id) WHERE status = 'pending';
  CREATE TABLE {rules} (
    id text COLLATE "C" PRIMARY KEY,
    scope text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    rule text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
  );
  CREATE TABLE {controls} (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    response_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    items text COLLATE "C"
  );
  CREATE INDEX controls_response ON {controls} (response_id);
  CREATE TABLE {idempotency} (
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    response_id text COLLATE "C",
    status integer,
    answer text COLLATE "C",
    expires_at bigint NOT NULL,
    PRIMARY KEY (owner, key)
  );
  CREATE INDEX idempotency_expiry ON {idempotency} (expires_at);
  CREATE INDEX idempotency_answers ON {idempotency} (response_id) WHERE response_id IS NOT NULL AND answer IS NOT NULL;
  CREATE TABLE {tokens} (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    body text COLLATE "C" NOT NULL
  );
  CREATE TABLE {erasing} (
    number bigint PRIMARY KEY
  );
  CREATE TABLE {subscriptions} (
    target text COLLATE "C" PRIMARY KEY,
    events text COLLATE "C",
    until bigint NOT NULL
  );
  CREATE TABLE {outbox} (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target text COLLATE "C" NOT NULL,
    due bigint NOT NULL,
    attempts integer NOT NULL,
    process text COLLATE "C",
    created_at bigint NOT NULL,
    body text COLLATE "C" NOT NULL
  );
  CREATE INDEX outbox_due ON {outbox} (target, due);
  CREATE TABLE {usage} (
    owner text COLLATE "C" NOT NULL,
    day integer NOT NULL,
    tokens bigint NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (owner, day)
  );
  CREATE TABLE {budgets} (
    key text COLLATE "C" PRIMARY KEY,
    limits text COLLATE "C" NOT NULL,
    period text COLLATE "C" NOT NULL,
    is_set smallint NOT NULL,
    since bigint NOT NULL,
    tokens double precision NOT NULL,
    cost double precision NOT NULL,
    seconds double precision NOT NULL,
    agents double precision NOT NULL
  ) WITH (fillfactor = 50);
  CREATE TABLE {reservations} (
    key text COLLATE "C" NOT NULL,
    response_id text COLLATE "C" NOT NULL,
    tokens double precision NOT NULL,
    cost double precision NOT NULL,
    agents double precision NOT NULL,
    PRIMARY KEY (key, response_id)
  );
  CREATE TABLE {schedules} (
    id text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    next_at bigint,
    body text COLLATE "C" NOT NULL
  );
  CREATE UNIQUE INDEX schedules_name ON {schedules} (owner, name);
  CREATE INDEX schedules_due ON {schedules} (next_at) WHERE next_at IS NOT NULL;
  CREATE INDEX reservations_response ON {reservations} (response_id);
  `,
];
