/** A list to pick from, narrowed by typing. Invariant: it is answered once, with a value of the list or with nothing. */
import { matchesKey, type SelectItem, SelectList } from "@earendil-works/pi-tui";
import type { Panel } from "./ask-panel.ts";
import type { Canvas } from "./block.ts";
import { clean } from "./clean.ts";
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
      label: clean(label),
      ...(description !== undefined && { description: clean(description) }),
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
    const list = new SelectList(this.#items.filter(fits), VISIBLE, listTheme(this.#look), {
      maxPrimaryColumnWidth: Math.min(44, Math.floor(this.#width * 0.5)),
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

  #narrow(filter: string): void {
    this.#filter = filter;
    this.#list = this.#made();
  }

  #resize(width: number): void {
    const chosen = this.#list.getSelectedItem();
    this.#width = width;
    this.#list = this.#made();
    const index = chosen ? this.#items.indexOf(chosen) : -1;
    if (this.#filter === "" && index > 0) this.#list.setSelectedIndex(index);
  }

  draw({ width, look }: Canvas): string[] {
    if (width !== this.#width) this.#resize(width);
    const filter = this.#filter === "" ? look.dim("type to narrow · enter picks · esc leaves") : clean(this.#filter);
    return [`${look.cyan("╭")} ${look.bold(this.#title)}  ${filter}`, ...this.#list.render(width)];
  }
}
