/** What a call was given, as a person reads it: a command, a text that is written, a change. Invariant: nothing of it is left out. */
import type { ComponentChildren } from "preact";
import { DiffView, folded, lineDiff } from "./diff.tsx";
import { Visible } from "./visible.tsx";

type Fields = Record<string, unknown>;

export function parseArguments(written: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(written === "" ? "{}" : written);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The one field that says most, in one line. */
export function gist(written: string): string {
  const fields = parseArguments(written);
  if (!fields) return written.slice(0, 200);
  if (Array.isArray(fields.todos)) return `${fields.todos.length} steps`;
  if (Array.isArray(fields.files)) {
    const paths = fields.files.map((one: unknown) => (one as { file_path?: unknown } | null)?.file_path);
    return paths.filter((path) => typeof path === "string").join(", ");
  }
  for (const key of [
    "command",
    "pattern",
    "file_path",
    "path",
    "query",
    "url",
    "description",
    "task",
    "prompt",
    "name",
  ]) {
    const value = fields[key];
    if (typeof value !== "string" || value === "") continue;
    const other = key === "pattern" && typeof fields.path === "string" ? ` in ${fields.path}` : "";
    return value.replace(/\s+/g, " ").slice(0, 200) + other;
  }
  const all = JSON.stringify(fields);
  return all === "{}" ? "" : all.slice(0, 200);
}

const CHANGES: [string, string][] = [
  ["old_string", "new_string"],
  ["old_text", "new_text"],
  ["oldText", "newText"],
];

interface Replacement {
  before: string;
  after: string;
  all: boolean;
}

/** What is replaced by what; undefined: the call replaces nothing, or what it says of it cannot be read. */
function replacements(fields: Fields): { keys: string[]; list: Replacement[] } | undefined {
  const one = (from: Fields): { keys: string[]; list: Replacement[] } | undefined => {
    const keys = CHANGES.find((pair) => pair.every((key) => typeof from[key] === "string"));
    if (!keys) return undefined;
    return {
      keys,
      list: [{ before: text(from[keys[0]]), after: text(from[keys[1]]), all: from.replace_all === true }],
    };
  };
  const { edits } = fields;
  if (!Array.isArray(edits) || edits.length === 0) return one(fields);
  const all = edits.map((edit: unknown) =>
    typeof edit === "object" && edit !== null ? one(edit as Fields) : undefined,
  );
  const list = all.flatMap((found) => found?.list ?? []);
  return list.length === edits.length ? { keys: ["edits"], list } : undefined;
}

/** The file that a call is about, as it is now. */
export interface FileNow {
  /** Null: nobody may look at it. */
  exists: boolean | null;
  before: string | null;
}

/** What the call would make of a file; undefined: it cannot be said. */
function outcome(fields: Fields, now: FileNow): string | undefined {
  if (typeof fields.content === "string") return fields.content;
  let result = now.before ?? "";
  for (const { before, after, all } of replacements(fields)?.list ?? []) {
    const parts = result.split(before);
    if (before === "" || parts.length === 1 || (parts.length > 2 && !all)) return undefined;
    result = parts.join(after);
  }
  return result;
}

export function Arguments({ name, written, now }: { name: string; written: string; now?: FileNow | undefined }) {
  const fields = parseArguments(written);
  if (!fields) return written === "" ? null : <Block label="arguments" value={written} />;
  const change = replacements(fields);
  const content = name.endsWith("write") && typeof fields.content === "string" ? fields.content : undefined;
  const apart = new Set([...(change?.keys ?? []), ...(content === undefined ? [] : ["content"])]);
  const rest = Object.entries(fields).filter(([key]) => !apart.has(key));
  const asked = (
    <>
      {change?.list.map(({ before, after, all }, index) => (
        <div key={index}>
          {all && <p class="hint">Everywhere in the file:</p>}
          <DiffView lines={lineDiff(before, after)} />
        </div>
      ))}
      {content !== undefined && <DiffView lines={linesOf(content).map((line) => ({ sign: "+", text: line }))} />}
    </>
  );
  return (
    <div class="arguments">
      {rest.map(([key, value]) => (
        <Block key={key} label={key} value={text(value)} />
      ))}
      {now ? <Against fields={fields} now={now} asked={asked} /> : asked}
    </div>
  );
}

function linesOf(content: string): string[] {
  return content.replace(/\n$/, "").split("\n");
}

/** The change against the file that is there; what was asked for stands below, whole. */
function Against({ fields, now, asked }: { fields: Fields; now: FileNow; asked: ComponentChildren }) {
  const { exists, before } = now;
  const after = before === null ? undefined : outcome(fields, now);
  if (before === null || after === undefined) {
    const isWhole = typeof fields.content === "string";
    return (
      <>
        {isWhole && exists === true && (
          <p class="change-note warning">Replaces a file that is there, and that cannot be shown here.</p>
        )}
        {isWhole && exists === false && <p class="change-note">A new file.</p>}
        {asked}
      </>
    );
  }
  const lines = folded(lineDiff(before.replace(/\n$/, ""), after.replace(/\n$/, "")));
  const of = (wanted: string) => lines.filter(({ sign }) => sign === wanted).length;
  return (
    <>
      <p class="change-note">
        {typeof fields.content === "string" ? "Replaces the file that is there" : "Changes the file"}:{" "}
        <span class="lines-removed">−{of("-")}</span> <span class="lines-added">+{of("+")}</span> lines
        {before === after && ", which changes nothing"}.
      </p>
      {before !== after && <DiffView lines={lines} />}
      <details class="whole-change">
        <summary>What the call says, whole</summary>
        {asked}
      </details>
    </>
  );
}

function Block({ label, value }: { label: string; value: string }) {
  const long = value.includes("\n") || value.length > 90;
  return (
    <div class={long ? "argument argument-long" : "argument"}>
      <span class="argument-name">{<Visible text={label} />}</span>
      {long ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre tabIndex={0} aria-label={label} role="group">
          <Visible text={value} />
        </pre>
      ) : (
        <code>
          <Visible text={value} />
        </code>
      )}
    </div>
  );
}
