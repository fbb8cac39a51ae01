/** A list to pick from, narrowed by typing. Invariant: it is answered once, with a value of the list or with nothing. */
import { matchesKey, type SelectItem, SelectList, truncateToWidth } from "@earendil-works/pi-tui";
import type { Panel } from "./ask-panel.ts";
import type { Canvas } from "./block.ts";
import { clean, cleanLine } from "./clean.ts";
import { type Look, listTheme } from "./style.ts";

const VISIBLE = 10;

export class PickPanel implements Panel {
  readonly #title: string;
  readonly #items: readonly SelectItem[];
  readonly #look: Look;
  readonly #done: (value: string | undefined) => void;
  #filter = "";
  #list: SelectList;
  #width = 80;
  focused = false;

  constructor(
    title: string,
    items: readonly SelectItem[],
    look: Look,
    chosen: string | undefined,
    done: (value: string | undefined) => void,
  ) {
    this.#title = title;
    this.#look = look;
    this.#done = done;
    this.#items = items.map(({ value, label, description }) => ({
      value,
      label: cleanLine(label),
      ...(description !== undefined && { description: cleanLine(description, 400) }),
    }));
    this.#list = this.#made();
    const index = this.#items.findIndex(({ value }) => value === chosen);
    if (index > 0) this.#list.setSelectedIndex(index);
  }

  #made(): SelectList {
    const words = this.#filter.toLowerCase().split(/\s+/);
    const fits = (item: SelectItem) => {
      const text = `${item.label} ${item.description ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const column = Math.min(44, Math.floor(this.#width * 0.5));
    const items = this.#items.filter(fits).map((item) => ({
      ...item,
      // Two columns before it, and two behind it.
      description: truncateToWidth(item.description ?? "", Math.max(1, this.#width - column - 4), "…"),
    }));
    const list = new SelectList(items, VISIBLE, listTheme(this.#look), {
      maxPrimaryColumnWidth: column,
      truncatePrimary: ({ text, maxWidth }) => truncateToWidth(text, maxWidth, "…"),
    });
    list.onSelect = ({ value }) => this.#done(value);
    list.onCancel = () => this.#done(undefined);
    return list;
  }

  key(data: string): boolean {
    if (matchesKey(data, "backspace")) this.#narrow(this.#filter.slice(0, -1));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what is typed has none
    else if (data.length <= 4 && !/[\u0000-\u001f\u007f]/.test(data)) this.#narrow(this.#filter + data);
    else this.#list.handleInput(data);
    return true;
  }

  /** Nothing is picked. */
  leave(): void {
    this.#done(undefined);
  }

  #narrow(filter: string): void {
    this.#filter = filter;
    this.#list = this.#made();
  }

  #resize(width: number): void {
    const chosen = this.#list.getSelectedItem();
    this.#width = width;
    this.#list = this.#made();
    const index = this.#items.findIndex(({ value }) => value === chosen?.value);
    if (this.#filter === "" && index > 0) this.#list.setSelectedIndex(index);
  }

  draw({ width, look }: Canvas): string[] {
    if (width !== this.#width) this.#resize(width);
    const filter = this.#filter === "" ? look.dim("type to narrow · enter picks · esc leaves") : clean(this.#filter);
    const title = `${look.cyan("╭")} ${look.bold(this.#title)}  ${filter}`;
    return [truncateToWidth(title, width, "…"), ...this.#list.render(width)];
  }
}
