/**
 * Where copies are pasted, and what became of them.
 *
 * Invariant: nothing is pasted that stands on something that stays out; with `verify` every response is read back and
 * compared with what was to be written before the next page comes.
 */
import {
  type CopiedTable,
  type Copying,
  copiedTables,
  type Pasted,
  type RecordCopy,
  type ResponseCopy,
} from "../../types/copy.ts";
import { RotundaError } from "../../types/error.ts";
import { type Left, NAMED, type Page } from "./copy-source.ts";

export interface Count {
  /** They were not here, and are now. */
  pasted: number;
  /** They were here already. */
  known: number;
  /** Pointers that were here and have gone on. */
  moved: number;
}

export type Counts = Record<"responses" | CopiedTable, Count>;

function noCounts(): Counts {
  const none = (): Count => ({ pasted: 0, known: 0, moved: 0 });
  const tables = Object.fromEntries(copiedTables.map((table) => [table, none()])) as Record<CopiedTable, Count>;
  return { responses: none(), ...tables };
}

export class CopyTarget {
  readonly #copying: Copying;
  readonly #verify: boolean;
  readonly #out = new Set<string>();
  #isAuditOut = false;
  readonly counts = noCounts();
  verified = 0;
  readonly renamed: { what: string; to: string }[] = [];
  /** The first ones. */
  readonly left: Left[] = [];
  leftCount = 0;

  constructor(copying: Copying, { verify = false }: { verify?: boolean } = {}) {
    this.#copying = copying;
    this.#verify = verify;
  }

  async take(page: Page): Promise<void> {
    if ("responses" in page) await this.#takeResponses(page.responses);
    else await this.#takeRecords(page.table, page.rows);
  }

  /** At the end. */
  settle(): Promise<void> {
    return this.#copying.settle();
  }

  async #takeResponses(copies: readonly ResponseCopy[]): Promise<void> {
    const page = copies.filter((copy) => !this.#standsOnLeft(copy));
    if (page.length === 0) return;
    const outcomes = await this.#copying.paste(page);
    const here: ResponseCopy[] = [];
    for (const [index, copy] of page.entries()) {
      const outcome = outcomes[index];
      if (outcome?.kind === "left") {
        this.#out.add(copy.id);
        this.#leave(`response ${copy.id}`, outcome.why);
      } else if (outcome) {
        this.#count("responses", outcome);
        here.push(copy);
      }
    }
    if (this.#verify)
      await this.#readBack(here, new Set(page.filter((_, index) => outcomes[index]?.kind === "pasted")));
  }

  #standsOnLeft({ id, previous_response_id, caller_response_id }: ResponseCopy): boolean {
    const above = [previous_response_id, caller_response_id].find((one) => one !== null && this.#out.has(one));
    if (above === undefined || above === null) return false;
    this.#out.add(id);
    this.#leave(`response ${id}`, `it stands on ${above}, which stays out`);
    return true;
  }

  #leave(what: string, why: string): void {
    this.leftCount++;
    if (this.left.length < NAMED) this.left.push({ what, why });
  }

  #count(table: keyof Counts, { kind }: Pasted): void {
    const count = this.counts[table];
    if (kind === "known") count.known++;
    else if (kind === "moved") count.moved++;
    else count.pasted++;
  }

  /** What was here may be deleted here: then it is what is left of it, with the same hash. */
  async #readBack(copies: readonly ResponseCopy[], written: ReadonlySet<ResponseCopy>): Promise<void> {
    const found = await this.#copying.responses({ ids: copies.map(({ id }) => id) });
    const byId = new Map(found.map((one) => [one.copy.id, one]));
    for (const copy of copies) {
      const back = byId.get(copy.id);
      const same = back?.fault === null && back.copy.hash === copy.hash;
      if (!same || (written.has(copy) && textOf(back.copy) !== textOf(copy))) {
        const why = back?.fault ?? "what is read is not what was written";
        throw new RotundaError("storage_damaged", `response ${copy.id} did not arrive whole: ${why}`, {
          remedy: "Check the disk of the database that it went to (rotunda doctor), and do it again.",
        });
      }
      this.verified++;
    }
  }

  async #takeRecords(table: CopiedTable, rows: readonly RecordCopy[]): Promise<void> {
    if (table === "audit" && this.#isAuditOut) return;
    const outcomes = await this.#copying.pasteRecords(table, rows);
    for (const [index, outcome] of outcomes.entries()) {
      const row = rows[index] ?? {};
      const what = table === "audit" ? "the audit log" : `${table} ${row.name ?? row.id ?? row.key}`;
      if (outcome.kind !== "left") this.#count(table, outcome);
      else if (!this.#isAuditOut) this.#leave(what, outcome.why);
      if (outcome.kind === "renamed") this.renamed.push({ what, to: outcome.to });
      this.#isAuditOut ||= table === "audit" && outcome.kind === "left";
    }
  }
}

/** To compare with: a half of a character that a database cannot hold is the replacement character in it. */
function textOf(copy: ResponseCopy): string {
  const outputs = copy.outputs.map(({ item_id, text }) => ({ item_id, text: text.toWellFormed() }));
  return JSON.stringify({ ...copy, outputs });
}
