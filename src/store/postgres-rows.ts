/**
 * Rows that one commit adds to the large tables: of all the responses that are in it, in one statement.
 *
 * Invariant: of what is written twice in one commit the later form is kept.
 */
import type { Approval } from "../types/approval.ts";
import type { RunEvent } from "../types/event.ts";
import type { Entry } from "../types/item.ts";
import { encodeEvents } from "./codec.ts";
import type { Transaction } from "./postgres-database.ts";
import { metaText } from "./rows.ts";

interface EventRow {
  number: number;
  first: number;
  last: number;
  body: string;
}

const INSERT_EVENTS = `INSERT INTO {events} (number, first, last, body)
  SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[])`;

const INSERT_ENTRIES = `INSERT INTO {entries} (number, side, position, turn, item, meta, tokens, cost)
  SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::int[], $4::int[], $5::text[], $6::text[], $7::bigint[], $8::float8[])
  ON CONFLICT (number, side, position) DO UPDATE SET turn = excluded.turn, item = excluded.item, meta = excluded.meta,
    tokens = excluded.tokens, cost = excluded.cost`;

const INSERT_OUTPUTS = `INSERT INTO {outputs} (item_id, response_id, text)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT (item_id) DO UPDATE SET text = excluded.text`;

export class Rows {
  readonly #events: EventRow[] = [];
  readonly #entries = new Map<string, { number: number; entry: Entry }>();
  readonly #outputs = new Map<string, { itemId: string; responseId: string; text: string }>();
  readonly #approvals = new Map<string, Approval>();

  addEvents(number: number, events: readonly RunEvent[]): void {
    const [first, last] = [events[0], events.at(-1)];
    if (!first || !last) return;
    const row = { number, first: first.sequence_number, last: last.sequence_number };
    this.#events.push({ ...row, body: encodeEvents(events) });
  }

  addEntries(number: number, entries: readonly Entry[]): void {
    for (const entry of entries) this.#entries.set(`${number}/${entry.side}/${entry.position}`, { number, entry });
  }

  addOutputs(responseId: string, outputs: readonly { itemId: string; text: string }[]): void {
    for (const { itemId, text } of outputs) this.#outputs.set(itemId, { itemId, responseId, text });
  }

  addApprovals(approvals: readonly Approval[]): void {
    for (const approval of approvals) this.#approvals.set(approval.id, approval);
  }

  send(transaction: Transaction): void {
    const events = this.#events;
    if (events.length > 0) {
      transaction.send(
        INSERT_EVENTS,
        events.map(({ number }) => number),
        events.map(({ first }) => first),
        events.map(({ last }) => last),
        events.map(({ body }) => body),
      );
    }
    this.#sendEntries(transaction);
    const outputs = [...this.#outputs.values()];
    if (outputs.length > 0) {
      transaction.send(
        INSERT_OUTPUTS,
        outputs.map(({ itemId }) => itemId),
        outputs.map(({ responseId }) => responseId),
        outputs.map(({ text }) => text),
      );
    }
    if (this.#approvals.size > 0) putApprovals(transaction, [...this.#approvals.values()]);
  }

  #sendEntries(transaction: Transaction): void {
    const entries = [...this.#entries.values()];
    if (entries.length === 0) return;
    transaction.send(
      INSERT_ENTRIES,
      entries.map(({ number }) => number),
      entries.map(({ entry }) => (entry.side === "output" ? 1 : 0)),
      entries.map(({ entry }) => entry.position),
      entries.map(({ entry }) => entry.turn),
      entries.map(({ entry }) => JSON.stringify(entry.item)),
      entries.map(({ entry }) => metaText(entry.meta)),
      entries.map(({ entry }) => entry.meta.usage?.total_tokens ?? null),
      entries.map(({ entry }) => entry.meta.usage?.cost ?? null),
    );
  }
}

/** Inside a transaction. */
export function putApprovals(transaction: Transaction, approvals: readonly Approval[]): void {
  transaction.send(
    `INSERT INTO {approvals} (id, response_id, status, body) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
     ON CONFLICT (id) DO UPDATE SET status = excluded.status, body = excluded.body, told = 0`,
    approvals.map(({ id }) => id),
    approvals.map(({ responseId }) => responseId),
    approvals.map(({ status }) => status),
    approvals.map((approval) => JSON.stringify(approval)),
  );
}
