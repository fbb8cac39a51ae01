/**
 * `rotunda export`: a conversation, a tree or everything as one file.
 *
 * Invariant: a file is there under its name only once it is whole and on the disk, and for nobody else to read.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { RotundaError } from "../../types/error.ts";
import { counted, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { CopyWriter } from "./copy-file.ts";
import { progress, tellLeft } from "./copy-report.ts";
import { CopySource, latestSelection, type Selection, selectionOf } from "./copy-source.ts";

export interface ExportFlags {
  all?: boolean;
  tree?: boolean;
  output?: string;
  json?: boolean;
}

/** Exit code 1: something damaged stays behind. */
export async function exportTo(context: CommandContext, wanted: string | undefined, flags: ExportFlags) {
  if (flags.all && (wanted !== undefined || flags.tree)) throw new RotundaError("usage", "--all is everything already");
  const toFile = flags.output !== undefined && flags.output !== "-";
  if (flags.output === undefined && context.streams.terminal) {
    throw new RotundaError("usage", "where to? Name a file", { remedy: "--output FILE, or --output - for stdout" });
  }
  const app = await context.app();
  const selection = await chosen(context, wanted, flags);
  const source = new CopySource(await app.store.copying(), selection);
  const sink = toFile ? fileSink(resolve(context.workspace, flags.output ?? "")) : stdoutSink();
  const counts = { responses: 0, conversations: 0, other: 0 };
  let digest: string;
  try {
    const writer = new CopyWriter(sink.write);
    await writer.begin(headOf(selection));
    const tell = progress(context);
    for await (const page of source.pages()) {
      await writer.page(page);
      if ("responses" in page) counts.responses += page.responses.length;
      else if (page.table === "conversations") counts.conversations += page.rows.length;
      else counts.other += page.rows.length;
      tell(counts.responses);
    }
    digest = await writer.end();
    sink.end();
  } catch (error) {
    sink.giveUp();
    throw error;
  }
  const { left, leftCount, damaged } = source;
  const say = toFile ? context.streams.out : context.streams.err;
  if (flags.json) say(`${JSON.stringify({ ...counts, digest, left, left_count: leftCount })}\n`);
  else {
    tellLeft(context, source, app.redact, context.streams.err);
    const other =
      counts.other === 0 ? "" : ` and ${counted(counts.other, "row")} of tokens, rules, budgets, schedules, audit log`;
    const where = toFile ? ` to ${visible(flags.output ?? "")}` : "";
    context.streams.err(
      `Exported${where}: ${counted(counts.responses, "response")}, ${counted(counts.conversations, "conversation")}${other}. Digest ${digest}\n`,
    );
  }
  return damaged > 0 ? 1 : 0;
}

async function chosen(context: CommandContext, wanted: string | undefined, { all, tree }: ExportFlags) {
  if (all) return undefined;
  const { store } = await context.app();
  if (wanted !== undefined) return selectionOf(store, wanted, tree === true);
  return latestSelection(store, context.workspace, tree === true);
}

function headOf(selection: Selection): { of: string; id?: string } {
  if (!selection) return { of: "everything" };
  const [what, id] =
    "conversation" in selection ? ["conversation", selection.conversation.id] : ["response", selection.response];
  return { of: selection.whole ? "tree" : what, id };
}

interface Sink {
  write(text: string): Promise<void>;
  end(): void;
  giveUp(): void;
}

function fileSink(path: string): Sink {
  const part = `${path}.${process.pid}.part`;
  let file: number;
  try {
    file = openSync(part, "wx", 0o600);
  } catch (error) {
    throw new RotundaError("usage", `${path} cannot be written: ${(error as Error).message}`, { cause: error });
  }
  return {
    async write(text) {
      const bytes = Buffer.from(text);
      for (let from = 0; from < bytes.length; ) from += writeSync(file, bytes, from);
    },
    end() {
      fsyncSync(file);
      closeSync(file);
      renameSync(part, path);
      const folder = openSync(dirname(path), "r");
      fsyncSync(folder);
      closeSync(folder);
    },
    giveUp() {
      closeSync(file);
      rmSync(part, { force: true });
    },
  };
}

function stdoutSink(): Sink {
  const { stdout } = process;
  return {
    write: (text) =>
      new Promise((done, failed) => {
        // Whoever reads may be slower than we are.
        stdout.write(text, (error) => (error ? failed(new RotundaError("cancelled", "nobody reads it")) : done()));
      }),
    end: () => undefined,
    giveUp: () => undefined,
  };
}
