/**
 * The screen: the transcript above, the editor or a question below, one line of status at the bottom.
 *
 * Invariant: a frame is exactly as high as the terminal and is made of what is in the window. Keys go to one place:
 * the view that covers the screen, else the question that is open, else the editor.
 */
import {
  type Component,
  Editor,
  matchesKey,
  type TUI,
  type TuiMouseEvent,
  type TuiMouseEventResult,
} from "@earendil-works/pi-tui";
import type { Panel } from "./ask-panel.ts";
import type { Canvas } from "./block.ts";
import { guard, guardTyped } from "./clean.ts";
import type { Session } from "./session.ts";
import { activityLines, statusLine, todoLines } from "./status.ts";
import { editorTheme, type Look } from "./style.ts";
import { Transcript } from "./transcript.ts";

/** Something that covers the whole screen: the tree. */
export interface View {
  draw(canvas: Canvas, height: number): string[];
  key(data: string): void;
  /** The wheel: rows up. */
  scroll(rows: number): void;
}

export interface ScreenActions {
  /** `queue`: as the next turn, whatever runs. */
  submit(text: string, queue: boolean): void;
  interrupt(): void;
  /** A paste that may be the path of an image; an empty one: the image of the clipboard. True: it was taken. */
  paste(text: string): boolean;
  /** The last queued message is the editor's again. */
  takeBack(): void;
  /** The window is near the top of what was read. */
  readOlder(): void;
}

export class Screen implements Component {
  readonly transcript = new Transcript();
  readonly editor: Editor;
  readonly look: Look;
  readonly #tui: TUI;
  readonly #actions: ScreenActions;
  #panel: Panel | undefined;
  #view: View | undefined;
  #focused = false;
  session: Session | undefined;
  /** A word at the right of the status line. */
  hint = "";

  constructor(tui: TUI, look: Look, actions: ScreenActions) {
    this.#tui = tui;
    this.look = look;
    this.#actions = actions;
    this.editor = new Editor(tui, editorTheme(look), { autocompleteMaxVisible: 8 });
    this.editor.onSubmit = (text) => actions.submit(text, false);
  }

  get focused(): boolean {
    return this.#focused;
  }

  set focused(focused: boolean) {
    this.#focused = focused;
    this.#spread();
  }

  #spread(): void {
    this.editor.focused = this.#focused && !this.#panel && !this.#view;
    if (this.#panel) this.#panel.focused = this.#focused && !this.#view;
  }

  get panel(): Panel | undefined {
    return this.#panel;
  }

  set panel(panel: Panel | undefined) {
    this.#panel = panel;
    this.#spread();
    this.#tui.requestRender();
  }

  get view(): View | undefined {
    return this.#view;
  }

  set view(view: View | undefined) {
    this.#view = view;
    this.#spread();
    this.#tui.requestRender();
  }

  /** Something on it moves by itself. */
  get moving(): boolean {
    return this.session?.running !== undefined || this.transcript.blocks.at(-1)?.live === true;
  }

  invalidate(): void {
    for (const block of this.transcript.blocks) block.changed();
    this.editor.invalidate();
  }

  #canvas(width: number): Canvas {
    return { width, look: this.look, now: Date.now() };
  }

  render(width: number): string[] {
    return this.#frame(width).map(this.look.signs);
  }

  #frame(width: number): string[] {
    const height = Math.max(1, this.#tui.terminal.rows);
    const canvas = this.#canvas(width);
    if (this.#view) return this.#view.draw(canvas, height).slice(0, height).map(guardKeepingCursor);
    const bottom = this.#bottom(canvas, height);
    const room = Math.max(0, height - bottom.length);
    const lines = this.transcript.draw(canvas, room);
    if (this.transcript.wantsOlder) this.#actions.readOlder();
    return [...lines, ...bottom].slice(-height);
  }

  #bottom(canvas: Canvas, height: number): string[] {
    const { session } = this;
    const above = session ? [...todoLines(session, canvas), ...activityLines(session, canvas)] : [];
    const middle = this.#panel
      ? this.#panel.draw(canvas, Math.max(6, Math.floor(height * 0.6))).map(guardKeepingCursor)
      : this.editor.render(canvas.width).map((line) => keepingCursor(line, guardTyped));
    const lines = [...above.map(guard), ...middle, guard(statusLine(session, canvas, this.#hint))];
    // On a very low screen the plan gives way first.
    return lines.length > height ? lines.slice(-height) : lines;
  }

  get #hint(): string {
    if (this.hint !== "") return this.hint;
    const { following } = this.transcript;
    if (this.session?.elsewhere.wentOn) return `the conversation went on${following ? "" : " · End follows"}`;
    return following ? "" : "scrolled · End follows";
  }

  handleInput(data: string): void {
    if (matchesKey(data, "ctrl+c")) this.#actions.interrupt();
    else if (this.#view) this.#view.key(data);
    else if (this.#scrolls(data)) return;
    else if (this.#panel) this.#panel.key(data);
    else if (!this.transcript.choosing || !this.#walks(data)) this.#edits(data);
  }

  #edits(data: string): void {
    const { editor } = this;
    const empty = editor.getText() === "";
    if (data.startsWith("\u001b[200~") && this.#actions.paste(data.slice(6).split("\u001b[201~")[0] ?? "")) return;
    if (matchesKey(data, "escape") && !editor.isShowingAutocomplete()) {
      this.session?.cancel();
    } else if (matchesKey(data, "ctrl+d") && empty) this.#actions.submit("/quit", false);
    else if (matchesKey(data, "alt+enter")) {
      const text = editor.getExpandedText();
      if (!this.session?.running || text.trim() === "") editor.insertTextAtCursor("\n");
      else {
        editor.setText("");
        this.#actions.submit(text, true);
      }
    } else if (matchesKey(data, "ctrl+v")) this.#actions.paste("");
    else if (matchesKey(data, "alt+up")) this.#actions.takeBack();
    else if (matchesKey(data, "tab") && empty) this.transcript.choose(1, this.#canvas(this.#tui.terminal.columns));
    else editor.handleInput(data);
  }

  /** The keyboard is in the transcript. False: the key leaves it, and is the editor's. */
  #walks(data: string): boolean {
    const canvas = this.#canvas(this.#tui.terminal.columns);
    if (matchesKey(data, "up") || matchesKey(data, "shift+tab")) this.transcript.choose(1, canvas);
    else if (matchesKey(data, "down") || matchesKey(data, "tab")) {
      if (!this.transcript.choose(-1, canvas)) this.#unchoose();
    } else if (
      matchesKey(data, "enter") ||
      matchesKey(data, "space") ||
      matchesKey(data, "right") ||
      matchesKey(data, "left")
    )
      this.transcript.toggleChosen();
    else {
      this.#unchoose();
      return matchesKey(data, "escape");
    }
    return true;
  }

  #unchoose(): void {
    this.transcript.unchoose();
    this.transcript.follow();
  }

  #scrolls(data: string): boolean {
    const canvas = this.#canvas(this.#tui.terminal.columns);
    if (this.#panel) return false;
    if (matchesKey(data, "pageUp")) this.transcript.page(1, canvas);
    else if (matchesKey(data, "pageDown")) this.transcript.page(-1, canvas);
    else if (matchesKey(data, "end") && !this.transcript.following) this.transcript.follow();
    else if (matchesKey(data, "ctrl+o")) this.transcript.toggleAll();
    else return false;
    return true;
  }

  handleMouse(event: TuiMouseEvent): TuiMouseEventResult | undefined {
    if (event.type === "wheel") {
      const rows = -(event.wheelDelta ?? 0);
      if (this.#view) this.#view.scroll(rows);
      else this.transcript.scroll(rows, this.#canvas(event.width));
      return { handled: true, render: true };
    }
    return undefined;
  }
}

/** The renderer's mark for the cursor is an escape of our own. */
function keepingCursor(line: string, change: (part: string) => string): string {
  const mark = "\u001b_pi:c\u0007";
  const at = line.indexOf(mark);
  // There is one of ours at most: a second one is somebody else's.
  return at === -1 ? change(line) : `${change(line.slice(0, at))}${mark}${change(line.slice(at + mark.length))}`;
}

function guardKeepingCursor(line: string): string {
  return keepingCursor(line, guard);
}
