/**
 * Path patterns: `*`, `?`, `[a-z]`, `{a,b}` within a name, `**` over any number of folders.
 *
 * Invariant: matching takes time proportional to pattern times path at most. The usual libraries translate to
 * regular expressions, in which a pattern with a few stars takes hours over a long name.
 */
import { InputError } from "./input.ts";

type Matches = (path: string) => boolean;

const MAX_LENGTH = 1000;
const MAX_ALTERNATIVES = 256;
/** Comparisons, for the pattern itself and then for each path: far more than an ordinary pattern needs. */
const STEPS_AT_FIRST = 3_000_000;
const STEPS_A_PATH = 4_000;

/** The work of one pattern, so that none holds up the event loop. */
class Steps {
  #left = STEPS_AT_FIRST;

  /** Throws `InputError` when they are used up. */
  use(count = 1): void {
    this.#left -= count;
    if (this.#left < 0) throw new InputError("pattern takes too long to match; use a simpler one");
  }

  nextPath(): void {
    this.#left += STEPS_A_PATH;
  }
}

/** A test of relative paths. Names that begin with a dot are ordinary names. Throws `InputError` on a pattern that is too big. */
export function compilePattern(pattern: string): Matches {
  if (pattern.length > MAX_LENGTH) throw new InputError(`pattern is longer than ${MAX_LENGTH} characters`);
  const steps = new Steps();
  const alternatives = expandBraces(pattern, steps).map((alternative) => {
    return alternative
      .split("/")
      .filter((name) => name !== "" && name !== ".")
      .map(compileName);
  });
  return (path) => {
    steps.nextPath();
    const names = path.split("/").map((name) => [...name]);
    const matches = (part: Name, name: readonly string[]) => matchName(part, name, steps);
    return alternatives.some((parts) => matchSequence(parts, names, matches, steps));
  };
}

/** Every alternative of `{a,b}`, also nested; braces without a comma stand for themselves. */
function expandBraces(pattern: string, steps: Steps): string[] {
  const results: string[] = [];
  const pending = [pattern];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const group = firstGroup(next, steps);
    if (!group) results.push(next);
    else {
      const { start, end, options } = group;
      for (const option of options) pending.push(next.slice(0, start) + option + next.slice(end + 1));
    }
    if (results.length + pending.length > MAX_ALTERNATIVES) {
      throw new InputError(`pattern has more than ${MAX_ALTERNATIVES} alternatives`);
    }
  }
  return results;
}

function firstGroup(text: string, steps: Steps): { start: number; end: number; options: string[] } | undefined {
  for (let start = text.indexOf("{"); start >= 0; start = text.indexOf("{", start + 1)) {
    if (text[start - 1] === "\\") continue;
    let level = 0;
    let last = start + 1;
    const options: string[] = [];
    for (let index = start; index < text.length; index++) {
      const character = text[index];
      steps.use();
      if (character === "\\") index++;
      else if (character === "{") level++;
      else if (character === "," && level === 1) {
        options.push(text.slice(last, index));
        last = index + 1;
      } else if (character === "}" && --level === 0) {
        if (options.length === 0) break;
        return { start, end: index, options: [...options, text.slice(last, index)] };
      }
    }
  }
  return undefined;
}

/** `any`: stands for any number of elements. */
interface Any {
  any: true;
}
type Name = Any | { any?: never; characters: Character[] };
type Character = Any | { any?: never; test(character: string): boolean };

function compileName(name: string): Name {
  if (name === "**") return { any: true };
  const characters: Character[] = [];
  const symbols = [...name];
  for (let index = 0; index < symbols.length; index++) {
    const symbol = symbols[index] ?? "";
    if (symbol === "*") {
      if (!characters.at(-1)?.any) characters.push({ any: true });
    } else if (symbol === "?") characters.push({ test: () => true });
    else if (symbol === "[") {
      const end = symbols.indexOf("]", index + (/[!^]/.test(symbols[index + 1] ?? "") ? 3 : 2));
      if (end < 0) characters.push(literal("["));
      else {
        characters.push(characterClass(symbols.slice(index + 1, end)));
        index = end;
      }
    } else if (symbol === "\\" && index + 1 < symbols.length) characters.push(literal(symbols[++index] ?? ""));
    else characters.push(literal(symbol));
  }
  return { characters };
}

function literal(wanted: string): Character {
  return { test: (character) => character === wanted };
}

function characterClass(symbols: string[]): Character {
  const negated = symbols[0] === "!" || symbols[0] === "^";
  const members = negated ? symbols.slice(1) : symbols;
  const ranges: [string, string][] = [];
  for (let index = 0; index < members.length; index++) {
    const first = members[index] ?? "";
    const last = members[index + 2];
    if (members[index + 1] === "-" && last !== undefined) {
      ranges.push([first, last]);
      index += 2;
    } else ranges.push([first, first]);
  }
  return { test: (character) => ranges.some(([first, last]) => first <= character && character <= last) !== negated };
}

function matchName(name: Name, text: readonly string[], steps: Steps): boolean {
  if (name.any) return true;
  return matchSequence(name.characters, text, matchCharacter, steps);
}

function matchCharacter(character: Character, symbol: string): boolean {
  return !character.any && character.test(symbol);
}

/** Greedy, going back to the last `any` only: enough, since what an earlier one gives up a later one can take. */
function matchSequence<Part extends { any?: true }, Element>(
  parts: readonly Part[],
  elements: readonly Element[],
  matches: (part: Part, element: Element) => boolean,
  steps: Steps,
): boolean {
  let part = 0;
  let element = 0;
  let lastAny = -1;
  let resume = 0;
  while (element < elements.length) {
    steps.use();
    const current = parts[part];
    const value = elements[element] as Element;
    if (current?.any) {
      lastAny = part++;
      resume = element;
    } else if (current && matches(current, value)) {
      part++;
      element++;
    } else if (lastAny >= 0) {
      part = lastAny + 1;
      element = ++resume;
    } else return false;
  }
  while (parts[part]?.any) part++;
  return part === parts.length;
}
