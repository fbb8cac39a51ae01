/**
 * What is copied, page by page: responses with whatever they stand on before them, then the small tables.
 *
 * Invariant: what has not ended, what is damaged, and what stands on either stays behind and is counted; a conversation
 * comes after the response at which it stands. No more than one page is held in memory, and the ids of a tree.
 */
import { type CopiedTable, type Copying, copiedTables, type RecordCopy, type ResponseCopy } from "../../types/copy.ts";
import { RotundaError } from "../../types/error.ts";
import { type Conversation, LOCAL } from "../../types/response.ts";
import type { IdKind, Store } from "../../types/store.ts";
import { isId, isIdPart } from "../../util/ids.ts";
import { oneLine } from "../../util/text.ts";

/** `whole`: the whole tree and not only the path. Undefined: everything that is stored. */
export type Selection =
  | { conversation: Conversation; head: string; whole: boolean }
  | { response: string; whole: boolean }
  | undefined;

export type Page = { responses: ResponseCopy[] } | { table: CopiedTable; rows: RecordCopy[] };

/** What stays behind, and why. */
export interface Left {
  what: string;
  why: string;
}

/** Characters of a page: more make the next one smaller. */
const LARGE = 4_000_000;
const SMALL = 1_000_000;
const MOST = 100;
const ROWS = 500;
/** Of what stays behind so many are named; all are counted. */
export const NAMED = 100;

/** A conversation by name or id, or a response by id; parts of ids as everywhere. */
export async function selectionOf(store: Store, wanted: string, whole: boolean): Promise<Selection> {
  const named = (await store.conversation(wanted)) ?? (await byId(store, wanted));
  if (typeof named === "string") return { response: named, whole };
  return ofConversation(named, whole);
}

/** The directory's latest conversation. */
export async function latestSelection(store: Store, workspace: string, whole: boolean): Promise<Selection> {
  const [latest] = await store.conversations({ limit: 1, owner: LOCAL, workspace });
  if (latest) return ofConversation(latest, whole);
  throw new RotundaError("not_found", "there is no conversation in this directory", {
    remedy: "Name a conversation or a response, or take everything: --all",
  });
}

function ofConversation(conversation: Conversation, whole: boolean): Selection {
  const { head } = conversation;
  if (head !== null) return { conversation, head, whole };
  throw new RotundaError("not_found", `nothing is left of the conversation ${conversation.name ?? conversation.id}`);
}

async function byId(store: Store, part: string): Promise<Conversation | string> {
  const unknown = new RotundaError("not_found", `there is no conversation and no response ${oneLine(part, 40)}`);
  if (!isIdPart(part)) throw unknown;
  const kinds: IdKind[] = part.startsWith("conv_") ? ["conversation"] : ["response", "conversation"];
  const found = isId(part) ? [part] : await store.resolve(part, kinds);
  const [id] = found;
  if (found.length > 1) throw new RotundaError("ambiguous_id", `${part} fits several: ${found.join(", ")}`);
  if (id?.startsWith("conv_")) {
    const conversation = await store.conversation(id);
    if (conversation) return conversation;
  } else if (id !== undefined && (await store.node(id))) return id;
  throw unknown;
}

export class CopySource {
  readonly #copying: Copying;
  readonly #selection: Selection;
  /** What stays behind, with what it goes on from. */
  readonly #behind = new Map<string, string | null>();
  /** Of a tree: what conversations may stand at. */
  readonly #taken = new Set<string>();
  #read = 0;
  #limit = 8;
  /** The first ones. */
  readonly left: Left[] = [];
  leftCount = 0;
  damaged = 0;

  constructor(copying: Copying, selection: Selection) {
    this.#copying = copying;
    this.#selection = selection;
  }

  async *pages(): AsyncGenerator<Page> {
    if (this.#selection) {
      yield* this.#selected(this.#selection);
      return;
    }
    for (const table of copiedTables) {
      let last: RecordCopy | undefined;
      do {
        const rows = await this.#copying.records(table, last, ROWS);
        last = rows.length < ROWS ? undefined : rows.at(-1);
        // Asked for after the pointers were read: so all that they stand at has gone before them.
        if (table === "conversations") yield* this.#all();
        const taken = table === "conversations" ? rows.flatMap((row) => this.#pointer(row)) : rows;
        if (taken.length > 0) yield { table, rows: taken };
      } while (last);
    }
  }

  /** Every response that was not read yet. */
  async *#all(): AsyncGenerator<Page> {
    const upTo = await this.#copying.last();
    while (this.#read < upTo) {
      const found = await this.#copying.responses({ after: this.#read, upTo, limit: this.#limit });
      this.#read = found.at(-1)?.number ?? upTo;
      yield { responses: this.#sound(found) };
    }
  }

  async *#selected(selection: NonNullable<Selection>): AsyncGenerator<Page> {
    const { whole } = selection;
    const start = "head" in selection ? selection.head : selection.response;
    const numbers = await this.#copying.belonging([start], whole);
    for (let from = 0; from < numbers.length; ) {
      const page = numbers.slice(from, from + this.#limit);
      from += page.length;
      const responses = this.#sound(await this.#copying.responses({ numbers: page }));
      for (const { id } of responses) this.#taken.add(id);
      yield { responses };
    }
    if ("conversation" in selection && !whole) {
      const rows = this.#pointer(rowOf(selection.conversation));
      if (rows.length > 0) yield { table: "conversations", rows };
      return;
    }
    const stands = (head: unknown) => (whole ? this.#taken.has(String(head)) : head === start);
    for (let last: RecordCopy | undefined; ; ) {
      const rows = await this.#copying.records("conversations", last, ROWS);
      const standing = rows.filter(({ head }) => stands(this.#headOf(head)));
      const taken = standing.flatMap((row) => this.#pointer(row));
      if (taken.length > 0) yield { table: "conversations", rows: taken };
      last = rows.at(-1);
      if (rows.length < ROWS) return;
    }
  }

  #sound(found: Awaited<ReturnType<Copying["responses"]>>): ResponseCopy[] {
    const size = found.reduce((sum, { copy }) => sum + sizeOf(copy), 0);
    if (size > LARGE) this.#limit = Math.max(1, this.#limit >> 1);
    else if (size < SMALL) this.#limit = Math.min(MOST, this.#limit * 2);
    return found.flatMap(({ copy, fault }) => {
      const why = this.#whyBehind(copy, fault);
      if (why === undefined) return [copy];
      this.#behind.set(copy.id, copy.previous_response_id);
      this.#leave(`response ${copy.id}`, why);
      return [];
    });
  }

  #whyBehind(copy: ResponseCopy, fault: string | null): string | undefined {
    if (copy.ended_at === null) return `it has not ended (it is ${copy.status})`;
    for (const above of [copy.previous_response_id, copy.caller_response_id]) {
      if (above !== null && this.#behind.has(above)) return `it stands on ${above}, which stays behind`;
    }
    if (fault === null) return undefined;
    this.damaged++;
    return `it is damaged: ${fault} (rotunda doctor)`;
  }

  #leave(what: string, why: string): void {
    this.leftCount++;
    if (this.left.length < NAMED) this.left.push({ what, why });
  }

  /** Where a pointer may stand: at its response, or the nearest one above it that comes along. */
  #headOf(head: RecordCopy[string] | undefined): string | null {
    let next = head === undefined || head === null ? null : String(head);
    while (next !== null && this.#behind.has(next)) next = this.#behind.get(next) ?? null;
    return next;
  }

  #pointer(row: RecordCopy): RecordCopy[] {
    const head = this.#headOf(row.head);
    if (head !== null || row.head === null) return [{ ...row, head }];
    this.#leave(`conversation ${row.name ?? row.id}`, "nothing of it comes along");
    return [];
  }
}

function sizeOf({ entries, events, outputs }: ResponseCopy): number {
  const texts = [
    ...entries.map(({ item }) => item),
    ...events.map(({ body }) => body),
    ...outputs.map(({ text }) => text),
  ];
  return texts.reduce((sum, text) => sum + text.length, 0);
}

function rowOf(conversation: Conversation): RecordCopy {
  const { id, owner, name, title, head, workspace, metadata, createdAt, updatedAt } = conversation;
  const times = { created_at: createdAt, updated_at: updatedAt };
  return { id, owner, name, title, head, workspace, metadata: JSON.stringify(metadata), ...times };
}
