/** Small text helpers that more than one part needs. */

/** Anchored glob over names: `*` any run of characters, `?` one. No path semantics. */
export function matchesName(pattern: string, name: string): boolean {
  if (!/[*?]/.test(pattern)) return pattern === name;
  return nameGlob(pattern).test(name);
}

const compiled = new Map<string, RegExp>();

function nameGlob(pattern: string): RegExp {
  let expression = compiled.get(pattern);
  if (!expression) {
    const source = pattern
      .replace(/[.+^${}()|[\]\\]/g, "\\$&")
      .replace(/\*+/g, "[\\s\\S]*")
      .replace(/\?/g, "[\\s\\S]");
    expression = new RegExp(`^${source}$`, "u");
    compiled.set(pattern, expression);
  }
  return expression;
}

/** Text with its control, bidi and invisible characters made visible, so that a terminal never obeys it. Keeps \n and \t. */
export function visible(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are exactly the characters that must not pass
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu,
    (character) => {
      const code = character.codePointAt(0) ?? 0;
      if (code === 0x0d) return "";
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      return `\\u{${code.toString(16)}}`;
    },
  );
}

/** First line, cut to `length` characters. */
export function oneLine(text: string, length = 80): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}
