/**
 * Transcript: everything said, of which the screen shows a window.
 *
 * Invariant: it follows the end unless a person has scrolled, and then what they look at stays where it is. A frame
 * draws what is in the window; what is held is bounded, and what was dropped is still in the store.
 */
import type { Block, Canvas } from "./block.ts";
import { NoteBlock } from "./block.ts";

/** Blocks, and characters in them, that are held at most. */
const MOST_BLOCKS = 4_000;
const MOST_WEIGHT = 4_000_000;
const TRIM_EVERY = 64;
/** Blocks from the top at which older ones are read. */
const NEAR = 20;

/** Reads a part of what was said before, and says how to read on. */
export type Older = () => Promise<{ blocks: Block[]; older: Older | undefined }>;

export class Transcript {
  #blocks: Block[] = [];
  /** The line of a block that stands at the top of the window; undefined: the end is followed. */
  #anchor: { block: Block; line: number } | undefined;
  /** The block that the keyboard is at. */
  #chosen: Block | undefined;
  /** Of the last frame: which block each row shows. */
  #rows: (Block | undefined)[] = [];
  #height = 1;
  #sinceTrim = 0;
  #reading = false;
  /** Its beginning is to be seen in the next frame. */
  #shown: Block | undefined;
  /** Reads what comes before all that is held; undefined: nothing does. */
  older: Older | undefined;

  get blocks(): readonly Block[] {
    return this.#blocks;
  }

  get following(): boolean {
    return this.#anchor === undefined;
  }

  get choosing(): boolean {
    return this.#chosen !== undefined;
  }

  add(block: Block): void {
    this.#blocks.push(block);
    if (++this.#sinceTrim >= TRIM_EVERY) this.#trim();
  }

  /** Puts one block in the place of those from one index up to another. */
  replace(from: number, to: number, block: Block): void {
    this.#blocks.splice(from, to - from, block);
    if (this.#chosen && !this.#blocks.includes(this.#chosen)) this.#chosen = undefined;
  }

  /** Adds a block of which the beginning is to be seen, however long it is. */
  show(block: Block): void {
    this.add(block);
    this.follow();
    this.#shown = block;
  }

  remove(block: Block): void {
    this.#blocks = this.#blocks.filter((one) => one !== block);
  }

  clear(): void {
    this.older = undefined;
    this.#blocks = [];
    this.#anchor = undefined;
    this.#chosen = undefined;
  }

  #trim(): void {
    this.#sinceTrim = 0;
    let weight = this.#blocks.reduce((sum, block) => sum + block.weight, 0);
    let from = Math.max(0, this.#blocks.length - MOST_BLOCKS);
    for (const block of this.#blocks.slice(0, from)) weight -= block.weight;
    while (weight > MOST_WEIGHT && from < this.#blocks.length - 100) weight -= this.#blocks[from++]?.weight ?? 0;
    if (from === 0) return;
    this.older = undefined;
    // The note that stands for what was dropped before goes with it.
    this.#blocks = [new NoteBlock("What came before is in the store: /tree shows it."), ...this.#blocks.slice(from)];
    if (this.#anchor && !this.#blocks.includes(this.#anchor.block)) this.#anchor = undefined;
    if (this.#chosen && !this.#blocks.includes(this.#chosen)) this.#chosen = undefined;
  }

  follow(): void {
    this.#anchor = undefined;
  }

  /** The window of `height` rows. */
  draw(canvas: Canvas, height: number): string[] {
    this.#height = height;
    if (this.#shown && this.#shown.lines(canvas).length > height) this.#anchor = { block: this.#shown, line: 0 };
    this.#shown = undefined;
    const shown = this.#anchor ? this.#fromAnchor(this.#anchor, canvas, height) : undefined;
    if (!shown) this.#anchor = undefined;
    const { lines, rows } = shown ?? this.#fromEnd(canvas, height);
    this.#rows = rows;
    return lines.map((line, row) => {
      const block = rows[row];
      const first = block !== undefined && block !== rows[row - 1];
      if (block === undefined || block !== this.#chosen) return line;
      // The mark stands at the block's first line, which its gap may precede.
      return first && line !== "" ? canvas.look.reverse(line) : first ? line : markLine(line, canvas, rows, row, block);
    });
  }

  #fromEnd(canvas: Canvas, height: number): { lines: string[]; rows: (Block | undefined)[] } {
    const lines: string[] = [];
    const rows: (Block | undefined)[] = [];
    for (let index = this.#blocks.length - 1; index >= 0 && lines.length < height; index--) {
      const block = this.#blocks[index];
      if (!block) break;
      const drawn = block.lines(canvas);
      for (let line = drawn.length - 1; line >= 0 && lines.length < height; line--) {
        lines.push(drawn[line] ?? "");
        rows.push(block);
      }
    }
    // What fits is at the top: a conversation begins where the eye is.
    lines.reverse();
    rows.reverse();
    while (lines.length < height) {
      lines.push("");
      rows.push(undefined);
    }
    return { lines, rows };
  }

  /** Undefined: the end has come into the window. */
  #fromAnchor(
    anchor: { block: Block; line: number },
    canvas: Canvas,
    height: number,
  ): { lines: string[]; rows: (Block | undefined)[] } | undefined {
    const lines: string[] = [];
    const rows: (Block | undefined)[] = [];
    let index = this.#blocks.indexOf(anchor.block);
    if (index === -1) return undefined;
    let from = anchor.line;
    for (; index < this.#blocks.length && lines.length < height; index++) {
      const block = this.#blocks[index];
      if (!block) break;
      for (const line of block.lines(canvas).slice(from)) {
        if (lines.length >= height) break;
        lines.push(line);
        rows.push(block);
      }
      from = 0;
    }
    return lines.length < height ? undefined : { lines, rows };
  }

  /** Puts what comes before at the top, once somebody is near it; what is looked at stays where it is. */
  async readOlder(): Promise<void> {
    const { older } = this;
    if (!older || this.#reading || this.#blocks.length >= MOST_BLOCKS) return;
    this.#reading = true;
    try {
      const part = await older();
      // Another conversation has come meanwhile.
      if (this.older !== older) return;
      this.older = part.older;
      this.#blocks = [...part.blocks, ...this.#blocks];
    } catch (error) {
      // It is not asked for once more in every frame.
      if (this.older === older) this.older = undefined;
      throw error;
    } finally {
      this.#reading = false;
    }
  }

  /** Something above the window has not been read yet, and the window is near it. */
  get wantsOlder(): boolean {
    if (this.older === undefined || this.#reading || !this.#anchor) return false;
    return this.#blocks.indexOf(this.#anchor.block) < NEAR;
  }

  /** Up by rows (down where negative). */
  scroll(rows: number, canvas: Canvas): void {
    const start = this.#anchor ?? this.#anchorAtEnd(canvas);
    if (!start) return;
    let index = this.#blocks.indexOf(start.block);
    let line = start.line - rows;
    while (line < 0 && index > 0) line += this.#blocks[--index]?.lines(canvas).length ?? 0;
    for (;;) {
      const length = this.#blocks[index]?.lines(canvas).length ?? 0;
      if (line < length || index >= this.#blocks.length - 1) break;
      line -= length;
      index++;
    }
    const block = this.#blocks[index];
    if (block) this.#anchor = { block, line: Math.max(0, line) };
  }

  page(direction: 1 | -1, canvas: Canvas): void {
    this.scroll(direction * Math.max(1, this.#height - 2), canvas);
  }

  #anchorAtEnd(canvas: Canvas): { block: Block; line: number } | undefined {
    let left = this.#height;
    for (let index = this.#blocks.length - 1; index >= 0; index--) {
      const block = this.#blocks[index];
      const length = block?.lines(canvas).length ?? 0;
      if (block && length >= left) return { block, line: length - left };
      left -= length;
    }
    // All of it fits.
    return undefined;
  }

  /** Opens everything that is closed, or closes everything where nothing is. */
  toggleAll(): void {
    const foldable = this.#blocks.filter((block) => block.foldable);
    const open = foldable.some((block) => !block.open);
    for (const block of foldable) block.toggle(open);
  }

  /** Moves the keyboard to the foldable block above (1) or below (-1). False: there is none. */
  choose(direction: 1 | -1, canvas: Canvas): boolean {
    const from = this.#chosen ? this.#blocks.indexOf(this.#chosen) : this.#blocks.length;
    for (let index = from - direction; index >= 0 && index < this.#blocks.length; index -= direction) {
      const block = this.#blocks[index];
      if (!block?.foldable) continue;
      this.#chosen = block;
      if (!this.#rows.includes(block)) {
        this.#anchor = { block, line: 0 };
        if (direction === -1) this.scroll(Math.max(0, this.#height - block.lines(canvas).length), canvas);
      }
      return true;
    }
    return false;
  }

  /** Opens or closes the chosen block. */
  toggleChosen(): void {
    this.#chosen?.toggle();
  }

  unchoose(): void {
    this.#chosen = undefined;
  }
}

function markLine(
  line: string,
  { look }: Canvas,
  rows: readonly (Block | undefined)[],
  row: number,
  block: Block,
): string {
  const head = block.gap && rows[row - 1] === block && rows[row - 2] !== block;
  return head ? look.reverse(line) : line;
}
