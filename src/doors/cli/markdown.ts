/**
 * Markdown for a terminal, line by line as it streams.
 *
 * Invariant: text from a model reaches the terminal only through `visible`; only our own escapes remain.
 */
import { visible } from "../../util/text.ts";
import type { Style } from "./style.ts";

export class MarkdownStream {
  readonly #style: Style;
  readonly #write: (text: string) => void;
  #line = "";
  #fence = false;

  constructor(style: Style, write: (text: string) => void) {
    this.#style = style;
    this.#write = write;
  }

  push(text: string): void {
    this.#line += text;
    for (let end = this.#line.indexOf("\n"); end !== -1; end = this.#line.indexOf("\n")) {
      this.#write(`${this.#render(this.#line.slice(0, end))}\n`);
      this.#line = this.#line.slice(end + 1);
    }
  }

  end(): void {
    if (this.#line !== "") this.#write(`${this.#render(this.#line)}\n`);
    this.#line = "";
    this.#fence = false;
  }

  #render(raw: string): string {
    // A no-break space is ordinary typography in prose, and harmless here.
    const line = visible(raw.replaceAll(/[\u00a0\u202f]/g, " "));
    if (/^\s*(?:```|~~~)/.test(line)) {
      this.#fence = !this.#fence;
      return this.#style.dim(line);
    }
    if (this.#fence) return this.#style.cyan(line);
    const heading = /^#{1,6}\s+(.*)$/.exec(line);
    if (heading) return this.#style.bold(heading[1] ?? "");
    const bullet = /^(\s*)[-*+]\s+(.*)$/.exec(line);
    if (bullet) return `${bullet[1]}• ${this.#inline(bullet[2] ?? "")}`;
    if (/^>\s?/.test(line)) return this.#style.dim(line.replace(/^>\s?/, "│ "));
    return this.#inline(line);
  }

  #inline(text: string): string {
    return text
      .split(/(`[^`]+`)/)
      .map((part) =>
        part.startsWith("`") && part.endsWith("`") && part.length > 2
          ? this.#style.cyan(part.slice(1, -1))
          : part.replace(/\*\*([^*]+)\*\*/g, (_, bold: string) => this.#style.bold(bold)),
      )
      .join("");
  }
}
