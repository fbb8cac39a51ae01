/** What a call was given, as a person reads it: a command, a text that is written, a change. Invariant: nothing of it is left out. */
import { DiffView, lineDiff } from "./diff.tsx";
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

export function Arguments({ name, written }: { name: string; written: string }) {
  const fields = parseArguments(written);
  if (!fields) return written === "" ? null : <Block label="arguments" value={written} />;
  const change = CHANGES.find(
    ([before, after]) => typeof fields[before] === "string" && typeof fields[after] === "string",
  );
  const written_ = name.endsWith("write") && typeof fields.content === "string" ? "content" : undefined;
  const shownApart = new Set([...(change ?? []), ...(written_ ? [written_] : [])]);
  const rest = Object.entries(fields).filter(([key]) => !shownApart.has(key));
  return (
    <div class="arguments">
      {rest.map(([key, value]) => (
        <Block key={key} label={key} value={text(value)} />
      ))}
      {change && <DiffView lines={lineDiff(text(fields[change[0]]), text(fields[change[1]]))} />}
      {written_ && (
        <DiffView
          lines={text(fields[written_])
            .replace(/\n$/, "")
            .split("\n")
            .map((line) => ({ sign: "+", text: line }))}
        />
      )}
    </div>
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
