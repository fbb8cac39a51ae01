/** Answers as markdown. Invariant: it is loaded when the screen already stands, for nothing of the first frame needs it. */
import { Markdown } from "@earendil-works/pi-tui";
import { type Look, markdownTheme } from "./style.ts";

/** Of a text that was cleaned. */
export function markdownLines(text: string, width: number, look: Look): string[] {
  const markdown = new Markdown(text, 0, 0, markdownTheme(look), undefined, {
    preserveOrderedListMarkers: true,
    preserveBackslashEscapes: true,
    renderLatex: false,
  });
  return markdown.render(width).map((line) => line.trimEnd());
}
