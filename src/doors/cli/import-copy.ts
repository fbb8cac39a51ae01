/**
 * `rotunda import FILE` where the file is one of `rotunda export`.
 *
 * Invariant: a line is taken over only after all lines before it, and only where it fits its digest, and its response the
 * hash that it had; to do it again adds nothing.
 */
import { closeSync, createReadStream, openSync, readSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { CopiedTable, Copying } from "../../types/copy.ts";
import { RotundaError } from "../../types/error.ts";
import type { CommandContext } from "./context.ts";
import { BEGINNING, type Line, readCopy } from "./copy-file.ts";
import { outcomeOf, progress, tellTarget } from "./copy-report.ts";
import type { Page } from "./copy-source.ts";
import { CopyTarget } from "./copy-target.ts";

export interface ImportCopyFlags {
  dryRun?: boolean;
  json?: boolean;
  contentOnly?: boolean;
}

/** Lines that are written at once. */
const LINES = 100;
const BYTES = 2_000_000;

/** Whether it is one: "-" is always taken for one. */
export function isCopyFile(workspace: string, path: string): boolean {
  if (path === "-") return true;
  const full = resolve(workspace, path);
  if (statSync(full, { throwIfNoEntry: false })?.isFile() !== true) return false;
  const file = openSync(full, "r");
  try {
    const bytes = Buffer.alloc(BEGINNING.length);
    return readSync(file, bytes) === bytes.length && bytes.toString("latin1") === BEGINNING;
  } finally {
    closeSync(file);
  }
}

export async function importCopy(context: CommandContext, path: string, flags: ImportCopyFlags): Promise<number> {
  const app = await context.app();
  const copying = await app.store.copying();
  const bytes =
    path === "-" ? process.stdin : createReadStream(resolve(context.workspace, path), { highWaterMark: 1 << 20 });
  const target = new CopyTarget(flags.dryRun ? pretending(copying) : copying);
  const tell = progress(context);
  const isWanted = (table: CopiedTable) => flags.contentOnly !== true || table === "conversations";
  try {
    for await (const page of pagesOf(readCopy(bytes as AsyncIterable<Buffer>))) {
      if (!("table" in page) || isWanted(page.table)) await target.take(page);
      tell(target.counts.responses.pasted + target.counts.responses.known);
    }
    await target.settle();
  } catch (error) {
    if (!flags.json) tellTarget(context, target, app.redact);
    throw error;
  }
  const { tokens, rules, schedules } = target.counts;
  if (!flags.dryRun && tokens.pasted + rules.pasted + schedules.pasted > 0) {
    // They decide who may do what from now on.
    const details = {
      imported: "rotunda export",
      tokens: tokens.pasted,
      rules: rules.pasted,
      schedules: schedules.pasted,
    };
    await app.store.audit({ action: "settings", who: "cli", door: "cli", responseId: null, at: Date.now(), details });
  }
  if (flags.json) {
    context.streams.out(
      `${JSON.stringify({ source: "rotunda export", dryRun: flags.dryRun === true, ...outcomeOf(target) })}\n`,
    );
    return 0;
  }
  tellTarget(context, target, app.redact);
  if (schedules.pasted > 0) {
    context.streams.err("The schedules are in force here: pause them where they came from, or both will start.\n");
  }
  context.streams.err(flags.dryRun ? "Nothing was written.\n" : "Imported.\n");
  return 0;
}

/** Lines of one kind together. Those before a line that is damaged come all the same. */
async function* pagesOf(lines: AsyncIterable<Line>): AsyncGenerator<Page> {
  let page: Page | undefined;
  let [count, bytes] = [0, 0];
  let fault: unknown;
  try {
    for await (const line of lines) {
      const isSame = page && ("response" in line ? "responses" in page : "table" in page && page.table === line.table);
      if (page && (!isSame || count >= LINES || bytes >= BYTES)) {
        yield page;
        page = undefined;
      }
      if (!page) [count, bytes] = [0, 0];
      page ??= "response" in line ? { responses: [] } : { table: line.table, rows: [] };
      if ("response" in line && "responses" in page) page.responses.push(line.response);
      else if ("row" in line && "rows" in page) page.rows.push(line.row);
      count++;
      bytes += line.bytes;
    }
  } catch (error) {
    fault = error;
  }
  if (page) yield page;
  if (fault !== undefined) throw fault;
}

/** Writes nothing; says what is here already. */
function pretending(copying: Copying): Copying {
  return {
    last: () => copying.last(),
    belonging: (ids, whole) => copying.belonging(ids, whole),
    responses: (wish) => copying.responses(wish),
    records: (table, after, limit) => copying.records(table, after, limit),
    async paste(copies) {
      const found = await copying.responses({ ids: copies.map(({ id }) => String(id)) });
      const here = new Map(found.map(({ copy }) => [copy.id, copy.hash]));
      return copies.map(({ id, hash }) => {
        if (here.has(id) && here.get(id) !== hash) {
          throw new RotundaError("storage_damaged", `response ${id} is here already, and is another one`);
        }
        return { kind: here.has(id) ? "known" : "pasted" };
      });
    },
    pasteRecords: async (_table, rows) => rows.map(() => ({ kind: "pasted" as const })),
    settle: async () => undefined,
  };
}
