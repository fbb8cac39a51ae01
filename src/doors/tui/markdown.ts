/**
 * Answers as markdown.
 *
 * Invariant: it is loaded when the screen already stands, for nothing of the first frame needs it; what a parser would
 * not come back from is drawn as the text that it is.
 */
import { Markdown } from "@earendil-works/pi-tui";
import { hasTooManySigns, withoutDepths } from "../../util/markdown-depth.ts";
import { type Look, markdownTheme } from "./style.ts";

/** Of a text that was cleaned; undefined where it is to be drawn as it is. */
export function markdownLines(text: string, width: number, look: Look): string[] | undefined {
  if (hasTooManySigns(text)) return undefined;
  try {
    return drawn(withoutDepths(text), width, look);
  } catch {
    return undefined;
  }
}

function drawn(text: string, width: number, look: Look): string[] {
  const markdown = new Markdown(text, 0, 0, markdownTheme(look), undefined, {
    preserveOrderedListMarkers: true,
    preserveBackslashEscapes: true,
    renderLatex: false,
  });
  return markdown.render(width).map((line) => line.trimEnd());
}
