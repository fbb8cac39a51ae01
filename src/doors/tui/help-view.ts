/** `/help`: commands and keys, over the whole screen. Invariant: it is closed as it was opened; nothing else changes. */
import { matchesKey, truncateToWidth } from "@earendil-works/pi-tui";
import { type Canvas, ListBlock } from "./block.ts";
import type { View } from "./screen.ts";

type Rows = readonly (readonly [string, string])[];

export class HelpView implements View {
  readonly #parts: readonly (readonly [string, ListBlock])[];
  readonly #done: () => void;
  #from = 0;
  #height = 1;

  constructor(commands: Rows, keys: Rows, done: () => void) {
    const column = Math.max(...[...commands, ...keys].map(([name]) => name.length));
    const aligned = (rows: Rows) => new ListBlock(rows.map(([name, text]) => [name.padEnd(column), text]));
    this.#parts = [
      ["Commands", aligned(commands)],
      ["Keys", aligned(keys)],
    ];
    this.#done = done;
  }

  key(data: string): void {
    if (matchesKey(data, "escape") || matchesKey(data, "enter") || data === "q") this.#done();
    else if (matchesKey(data, "up") || data === "k") this.scroll(1);
    else if (matchesKey(data, "down") || data === "j") this.scroll(-1);
    else if (matchesKey(data, "pageUp")) this.scroll(this.#height);
    else if (matchesKey(data, "pageDown") || matchesKey(data, "space")) this.scroll(-this.#height);
    else if (matchesKey(data, "home")) this.#from = 0;
    else if (matchesKey(data, "end")) this.#from = Number.MAX_SAFE_INTEGER;
  }

  scroll(rows: number): void {
    this.#from = Math.max(0, this.#from - rows);
  }

  draw(canvas: Canvas, height: number): string[] {
    const { look, width } = canvas;
    const all = this.#parts.flatMap(([title, list], index) => [
      ...(index === 0 ? [] : [""]),
      ` ${look.bold(title)}`,
      ...list.lines(canvas).slice(1),
    ]);
    this.#height = Math.max(1, height - 2);
    this.#from = Math.max(0, Math.min(this.#from, all.length - this.#height));
    const shown = all.slice(this.#from, this.#from + this.#height);
    while (shown.length < this.#height) shown.push("");
    const left = all.length - this.#from - this.#height;
    const more = all.length > this.#height ? `↑ ↓ scroll${left > 0 ? ` · ${left} more below` : ""} · ` : "";
    return [...shown, look.dim("─".repeat(width)), truncateToWidth(look.dim(` ${more}esc back`), width, "…")];
  }
}
