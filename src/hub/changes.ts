/** Changes: how a tool's definition differs from the pinned one, as lines that a person can judge. */
import type { JsonSchema } from "../types/json.ts";
import { canonicalJson } from "../util/canonical.ts";
import { visible } from "../util/text.ts";
import type { Definition } from "./definitions.ts";

const MAX_LINES = 400;
const MAX_TEXT = 4000;

/** A line diff (`- ` pinned, `+ ` now) of description and schema, bounded and with invisible characters shown. */
export function describeChange(before: Definition, now: Definition): string {
  const lines: string[] = [];
  if (before.description !== now.description)
    lines.push("description:", ...difference(before.description.split("\n"), now.description.split("\n")));
  const [oldSchema, newSchema] = [indented(before.input), indented(now.input)];
  if (oldSchema !== newSchema) lines.push("input schema:", ...difference(oldSchema.split("\n"), newSchema.split("\n")));
  if (lines.length === 0) lines.push("title changed");
  const text = visible(lines.join("\n"));
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}\n… (${text.length - MAX_TEXT} more characters)` : text;
}

function indented(schema: JsonSchema): string {
  return JSON.stringify(JSON.parse(canonicalJson(schema)), null, 2);
}

/** Removed and added lines in order, by the longest common subsequence; over the bound, all of both. */
function difference(before: string[], now: string[]): string[] {
  if (before.length > MAX_LINES || now.length > MAX_LINES)
    return [...before.map((line) => `- ${line}`), ...now.map((line) => `+ ${line}`)];
  const width = now.length + 1;
  const common = new Uint32Array((before.length + 1) * width);
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i * width + j] = before[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const lines: string[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < now.length) {
    if (i < before.length && j < now.length && before[i] === now[j]) {
      i++;
      j++;
    } else if (j >= now.length || (i < before.length && at(i + 1, j) >= at(i, j + 1))) lines.push(`- ${before[i++]}`);
    else lines.push(`+ ${now[j++]}`);
  }
  return lines;
}
