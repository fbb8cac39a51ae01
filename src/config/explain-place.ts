/**
 * Places in a configuration file: the line of a key, and where a file that cannot be parsed goes wrong.
 *
 * Invariant: loaded only where something is wrong; nothing of the file is quoted but a single character.
 */
import { readFileSync } from "node:fs";
import { blankComments } from "./json-comments.ts";

type Path = readonly PropertyKey[];

/** The line of a key or an entry of a list, from 1 on; undefined where it cannot be told. */
export async function lineFinder(path: string): Promise<(at: Path) => number | undefined> {
  const { LineCounter, isMap, isNode, isPair, isScalar, isSeq, parseDocument } = await import("../util/yaml.ts");
  let document: ReturnType<typeof parseDocument>;
  const lines = new LineCounter();
  try {
    if (/\.toml$/.test(path)) return () => undefined;
    const text = readFileSync(path, "utf8");
    document = parseDocument(/\.jsonc?$/.test(path) ? blankComments(text) : text, { lineCounter: lines });
  } catch {
    return () => undefined;
  }
  return (at) => {
    let node: unknown = document.contents;
    let offset: number | undefined;
    for (const [depth, key] of at.entries()) {
      if (isMap(node)) {
        // VS Code's files say `servers` for what is checked as `mcpServers`.
        const names = depth === 0 && key === "mcpServers" ? [key, "servers"] : [String(key)];
        const pair = node.items.find(
          (one) => isPair(one) && isScalar(one.key) && names.includes(String(one.key.value)),
        );
        if (!pair || !isScalar(pair.key)) return offset === undefined ? undefined : lines.linePos(offset).line;
        offset = pair.key.range?.[0] ?? offset;
        node = pair.value;
      } else if (isSeq(node)) {
        node = node.items[Number(key)];
        if (isNode(node)) offset = node.range?.[0] ?? offset;
      } else break;
    }
    return offset === undefined ? undefined : lines.linePos(offset).line;
  };
}

/** `:line:column: what is wrong`, in our own words: a parser's message quotes the file, and may quote a key. */
export async function parseFault(text: string, path: string, error: unknown): Promise<string> {
  if (/\.jsonc?$/.test(path)) return jsonFault(blankComments(text));
  if (/\.toml$/.test(path)) {
    const { line, column } = error as { line?: number; column?: number };
    return `${line === undefined ? "" : `:${line}:${column}`}: this is no TOML`;
  }
  return yamlFault(text);
}

const JSON_FAULTS: readonly [RegExp, string][] = [
  [/^Expected ',' or '([}\]])'/, "a comma or $1 is missing before this place"],
  [
    /^Expected (?:double-quoted )?property name/,
    "a key in double quotes must stand here, or there is a comma too many",
  ],
  [/^Expected ':'/, "a colon is missing before this place"],
  [/^Unexpected end/, "the file ends too early: a closing } or ] is missing"],
  [/^Unterminated string/, "a text is not closed with its quotation mark"],
  [/^Bad control character/, "there is a line break or a tab within a text"],
  [/^Bad (?:escaped|Unicode)/i, "this backslash begins nothing that is known: a backslash itself is written twice"],
  [/^Unexpected non-whitespace/, "something follows the end of the object"],
];

function jsonFault(text: string): string {
  const message = jsonMessage(text);
  const place = /at position (\d+)/.exec(message)?.[1];
  const isToken = message.startsWith("Unexpected token");
  const end = text.trimEnd().length;
  const at = Math.min(place !== undefined ? Number(place) : isToken ? badToken(text) : end, end);
  const before = text.slice(0, at).split("\n");
  const [, words] = JSON_FAULTS.find(([pattern]) => pattern.test(message)) ?? [];
  const bracket = /'([}\]])'/.exec(message)?.[1] ?? "}";
  const what = isToken
    ? `${JSON.stringify(text[at] ?? "")} cannot stand here: texts stand in double quotes`
    : (words?.replace("$1", bracket) ?? "this is no JSON");
  return `:${before.length}:${(before.at(-1)?.length ?? 0) + 1}: ${what}`;
}

function jsonMessage(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** The parser does not say where its unexpected token is: it is at the end of the shortest beginning that has it. */
function badToken(text: string): number {
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (jsonMessage(text.slice(0, middle)).startsWith("Unexpected token")) high = middle;
    else low = middle + 1;
  }
  return Math.max(0, low - 1);
}

const YAML_FAULTS: Readonly<Record<string, string>> = {
  BAD_INDENT: "this line does not begin in the same column as those that it belongs to",
  BAD_SCALAR_START: "a text that begins with this character must stand in quotation marks",
  BLOCK_AS_IMPLICIT_KEY:
    "there is a second colon in the line: a text with a colon and a space must stand in quotation marks",
  DUPLICATE_KEY: "this key stands here for the second time",
  MISSING_CHAR: "a character is missing before this place",
  MULTILINE_IMPLICIT_KEY: "a colon is missing in this line or in the one before",
  TAB_AS_INDENT: "the line begins with a tab: spaces must stand there",
  UNEXPECTED_TOKEN: "this cannot stand here",
  BAD_DQ_ESCAPE: "this backslash begins nothing that is known: a backslash itself is written twice",
  MULTIPLE_DOCS: "a second document begins here",
};

async function yamlFault(text: string): Promise<string> {
  const { LineCounter, isCollection, isScalar, parseDocument, visit } = await import("../util/yaml.ts");
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (!error) return ": an anchor or an alias (& or *) is used that is not there, or too often";
  const [at] = error.pos;
  // What was never closed is noticed at the end of the file: the place to look at is where it begins.
  let opened: { at: number; what: string } | undefined;
  visit(document, {
    Node(_key, node) {
      const from = node.range?.[0];
      if (from === undefined || from >= at) return;
      if (isScalar(node) && /^QUOTE/.test(String(node.type)) && /quote/.test(error.message)) {
        opened = { at: from, what: "this quotation mark is not closed" };
      }
      if (isCollection(node) && node.flow && /end with a|with \W+[\]}]/.test(error.message)) {
        opened = { at: from, what: `this ${text[from]} is not closed` };
      }
    },
  });
  const { line, col } = lines.linePos(opened?.at ?? at);
  return `:${line}:${col}: ${opened?.what ?? YAML_FAULTS[error.code] ?? "this is no YAML"}`;
}
