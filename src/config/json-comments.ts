/** Comments of JSON files. Invariant: what is taken out leaves every place where it is. */

/** JSONC: spaces in place of comments and trailing commas, so that every place stays where it is; strings untouched. */
export function blankComments(text: string): string {
  const blank = (part: string) => part.replace(/[^\n]/g, " ");
  return text
    .replace(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (part, string?: string) => string ?? blank(part))
    .replace(/("(?:\\.|[^"\\])*")|,(\s*[}\]])/g, (_, string?: string, end?: string) => string ?? ` ${end ?? ""}`);
}
