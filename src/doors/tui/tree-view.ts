/**
 * `/tree`: the picture of the conversation. Walk it, open an answer, go on from it, compare two side by side.
 *
 * Invariant: looking changes nothing; going on from an answer moves only where this terminal goes on from, and the
 * next message makes the branch.
 */
import { matchesKey, truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import type { App } from "../../types/app.ts";
import { toRotundaError } from "../../types/error.ts";
import { shortId } from "../../util/ids.ts";
import { counted } from "../../util/text.ts";
import { type Canvas, NoteBlock } from "./block.ts";
import { clean, cleanLine } from "./clean.ts";
import { showResponse } from "./history.ts";
import type { View } from "./screen.ts";
import type { Session } from "./session.ts";
import { costText, countText, type Look } from "./style.ts";
import { Transcript } from "./transcript.ts";
import { type TreeRow, type TreeRows, treeRows } from "./tree.ts";

type Mode = "walk" | "open" | "compare";

/** Columns from which an answer is shown beside the tree. */
const WIDE = 90;
const MOST_LINES = 2_000;

export class TreeView implements View {
  readonly #app: App;
  readonly #rows: readonly TreeRow[];
  readonly #truncated: boolean;
  readonly #here: string | undefined;
  readonly #update: () => void;
  readonly #done: (id: string | undefined) => void;
  readonly #texts = new Map<string, Transcript>();
  readonly #loading = new Set<string>();
  #at: number;
  #top = 0;
  #mode: Mode = "walk";
  #marked: string[] = [];
  #scroll = 0;
  #height = 10;

  static async open(
    session: Session,
    from: string | undefined,
    update: () => void,
    done: (id: string | undefined) => void,
  ): Promise<TreeView> {
    const tree = from === undefined ? { rows: [], truncated: false } : await treeRows(session.app, from);
    return new TreeView(session.app, tree, from, update, done);
  }

  constructor(
    app: App,
    { rows, truncated }: TreeRows,
    here: string | undefined,
    update: () => void,
    done: (id: string | undefined) => void,
  ) {
    this.#app = app;
    this.#rows = rows;
    this.#truncated = truncated;
    this.#here = here;
    this.#update = update;
    this.#done = done;
    this.#at = Math.max(
      0,
      rows.findIndex(({ node }) => node.id === here),
    );
  }

  get #row(): TreeRow | undefined {
    return this.#rows[this.#at];
  }

  // ---- keys

  key(data: string): void {
    if (this.#mode !== "walk") this.#readKey(data);
    else if (matchesKey(data, "escape") || data === "q") this.#done(undefined);
    else if (matchesKey(data, "up") || data === "k") this.#move(-1);
    else if (matchesKey(data, "down") || data === "j") this.#move(1);
    else if (matchesKey(data, "pageUp")) this.#move(-this.#height);
    else if (matchesKey(data, "pageDown")) this.#move(this.#height);
    else if (matchesKey(data, "home")) this.#move(-this.#rows.length);
    else if (matchesKey(data, "end")) this.#move(this.#rows.length);
    else if (matchesKey(data, "left")) this.#toParent();
    else if (matchesKey(data, "right")) this.#toBranch();
    else if (matchesKey(data, "enter")) this.#goOn();
    else if (matchesKey(data, "space") || data === "o") this.#look("open");
    else if (data === "m") this.#mark();
    else if (data === "c" && this.#marked.length === 2) this.#look("compare");
  }

  #readKey(data: string): void {
    if (matchesKey(data, "escape") || data === "q" || matchesKey(data, "space")) this.#look("walk");
    else if (matchesKey(data, "enter") && this.#mode === "open") this.#goOn();
    else if (matchesKey(data, "up") || data === "k") this.scroll(1);
    else if (matchesKey(data, "down") || data === "j") this.scroll(-1);
    else if (matchesKey(data, "pageUp")) this.scroll(this.#height);
    else if (matchesKey(data, "pageDown")) this.scroll(-this.#height);
  }

  scroll(rows: number): void {
    if (this.#mode === "walk") this.#move(-rows);
    else this.#scroll = Math.max(0, this.#scroll - rows);
  }

  #look(mode: Mode): void {
    this.#mode = mode;
    this.#scroll = 0;
  }

  #move(by: number): void {
    this.#at = Math.max(0, Math.min(this.#rows.length - 1, this.#at + by));
    this.#scroll = 0;
  }

  #toParent(): void {
    const { previousResponseId, caller } = this.#row?.node ?? {};
    const above = previousResponseId ?? caller?.responseId;
    const index = this.#rows.findIndex(({ node }) => node.id === above);
    if (index !== -1) this.#at = index;
  }

  /** The next answer with the same parent; without one, the first that follows. */
  #toBranch(): void {
    const row = this.#row;
    if (!row) return;
    const siblings = this.#rows.filter(
      ({ node, subAgent }) => !subAgent && node.previousResponseId === row.node.previousResponseId,
    );
    const next =
      siblings[siblings.indexOf(row) + 1] ?? this.#rows.find(({ node }) => node.previousResponseId === row.node.id);
    if (next) this.#at = this.#rows.indexOf(next);
  }

  #goOn(): void {
    const row = this.#row;
    if (row && !row.subAgent) this.#done(row.node.id);
  }

  #mark(): void {
    const id = this.#row?.node.id;
    if (id === undefined) return;
    if (this.#marked.includes(id)) this.#marked = this.#marked.filter((one) => one !== id);
    else this.#marked = [...this.#marked, id].slice(-2);
  }

  // ---- the picture

  draw(canvas: Canvas, height: number): string[] {
    const { look } = canvas;
    this.#height = Math.max(1, height - 3);
    if (this.#rows.length === 0)
      return [look.bold(" The tree"), "", "  Nothing has been said yet.", "", look.dim(" esc back")];
    const body = this.#body(canvas, this.#height);
    while (body.length < this.#height) body.push("");
    return [this.#title(canvas), ...body, look.dim("─".repeat(canvas.width)), this.#keys(canvas)];
  }

  #body(canvas: Canvas, height: number): string[] {
    if (this.#mode === "compare") return this.#compared(canvas, height);
    const { node } = this.#row ?? {};
    if (this.#mode === "open" && node) return this.#window(this.#text(node.id, canvas), height);
    const wide = canvas.width >= WIDE;
    const left = wide ? Math.floor(canvas.width * 0.55) : canvas.width;
    const list = this.#list({ ...canvas, width: left }, height);
    if (!wide || !node) return list;
    const right = { ...canvas, width: canvas.width - left - 2 };
    return beside(list, this.#text(node.id, right), left, canvas.look, height);
  }

  #title({ width, look }: Canvas): string {
    const answers = this.#rows.filter(({ subAgent }) => !subAgent);
    const parents = new Set(answers.map(({ node }) => node.previousResponseId));
    const tokens = this.#rows.reduce((sum, { node }) => sum + node.usage.total_tokens, 0);
    const cost = costText(this.#rows.reduce((sum, { node }) => sum + (node.usage.cost ?? 0), 0));
    const leaves = answers.filter(({ node }) => !parents.has(node.id)).length;
    const facts = [counted(answers.length, "answer"), counted(leaves, "end"), `${countText(tokens)} tokens`, cost];
    if (this.#truncated) facts.push("there are more");
    const told = facts.filter((text) => text !== "").join(" · ");
    return truncateToWidth(` ${look.bold("The tree")} ${look.dim(`· ${told}`)}`, width, "…");
  }

  #keys({ width, look }: Canvas): string {
    const texts = {
      walk: `↑ ↓ walk · ← parent · → branch · enter go on from it · space open · m mark${this.#marked.length === 2 ? " · c compare" : ""} · esc back`,
      open: "↑ ↓ scroll · enter go on from it · esc back to the tree",
      compare: "↑ ↓ scroll both · esc back to the tree",
    };
    return truncateToWidth(look.dim(` ${texts[this.#mode]}`), width, "…");
  }

  #list(canvas: Canvas, height: number): string[] {
    if (this.#at < this.#top) this.#top = this.#at;
    if (this.#at >= this.#top + height) this.#top = this.#at - height + 1;
    return this.#rows
      .slice(this.#top, this.#top + height)
      .map((row, index) => this.#line(row, this.#top + index, canvas));
  }

  #line(row: TreeRow, index: number, { width, look }: Canvas): string {
    const { node } = row;
    const here = node.id === this.#here ? look.cyan("▸") : " ";
    const marked = this.#marked.includes(node.id) ? look.magenta("◆") : stateMark(row, look);
    const used =
      costText(node.usage.cost) || (node.usage.total_tokens > 0 ? `${countText(node.usage.total_tokens)}t` : "");
    const who = row.subAgent ? `${clean(node.profile)} ` : "";
    const right = cleanLine(`${node.model}${used === "" ? "" : ` ${used}`}`, Math.max(8, Math.floor(width * 0.4)));
    const head = `${here}${look.dim(row.branch)}${marked} `;
    const room = width - visibleWidth(head) - visibleWidth(who) - visibleWidth(right) - 2;
    const said = cleanLine(row.question, Math.max(6, room));
    const text = `${head}${look.magenta(who)}${row.subAgent ? look.dim(said) : said}`;
    const gap = " ".repeat(Math.max(1, width - visibleWidth(text) - visibleWidth(right) - 1));
    const line = truncateToWidth(`${text}${gap}${look.dim(right)}`, width, "…");
    return index === this.#at ? look.reverse(line) : line;
  }

  /** An answer with what was asked; empty until it was read. */
  #text(id: string, canvas: Canvas): string[] {
    const known = this.#texts.get(id);
    if (!known) {
      this.#read(id);
      return [canvas.look.dim(" …")];
    }
    const head = this.#head(id, canvas);
    return [head, ...known.blocks.flatMap((block) => [...block.lines(canvas)])].slice(0, MOST_LINES);
  }

  #head(id: string, { width, look }: Canvas): string {
    const node = this.#rows.find((row) => row.node.id === id)?.node;
    if (!node) return "";
    const seconds =
      node.endedAt === null ? "" : `${((node.endedAt - node.createdAt - node.waited) / 1_000).toFixed(1)}s`;
    const state = node.incompleteReason ? `${node.status}: ${node.incompleteReason}` : node.status;
    const facts = [
      shortId(id),
      node.model,
      node.profile,
      state,
      `${countText(node.usage.total_tokens)} tokens`,
      costText(node.usage.cost),
      seconds,
    ];
    return truncateToWidth(look.cyan(clean(facts.filter((text) => text !== "").join(" · "))), width, "…");
  }

  #read(id: string): void {
    if (this.#loading.has(id)) return;
    this.#loading.add(id);
    this.#app.store.get(id).then(
      (stored) => {
        const transcript = new Transcript();
        if (stored) showResponse(stored, transcript, false);
        if (this.#texts.size > 50) this.#texts.clear();
        this.#texts.set(id, transcript);
        this.#loading.delete(id);
        this.#update();
      },
      (error: unknown) => {
        const transcript = new Transcript();
        transcript.add(new NoteBlock(toRotundaError(error).message, "error"));
        this.#texts.set(id, transcript);
        this.#loading.delete(id);
        this.#update();
      },
    );
  }

  #compared(canvas: Canvas, height: number): string[] {
    const [one = "", other = ""] = this.#marked;
    const half = Math.floor((canvas.width - 3) / 2);
    const inner = { ...canvas, width: half };
    const left = this.#text(one, inner);
    // Both have cached lines of one width, so that each keeps its own.
    const right = this.#text(other, inner);
    this.#window(left.length > right.length ? left : right, height);
    const shown = [left, right].map((lines) => lines.slice(this.#scroll, this.#scroll + height));
    return beside(shown[0] ?? [], shown[1] ?? [], half + 1, canvas.look, height);
  }

  /** What is seen of a text: never less than its end. */
  #window(lines: readonly string[], height: number): string[] {
    this.#scroll = Math.min(this.#scroll, Math.max(0, lines.length - height));
    return lines.slice(this.#scroll, this.#scroll + height);
  }
}

function stateMark({ node, left }: TreeRow, look: Look): string {
  if (left) return look.yellow("⊘");
  if (node.status === "completed") return look.green("●");
  if (node.status === "failed") return look.red("✗");
  if (node.status === "waiting") return look.yellow("?");
  if (node.status === "in_progress" || node.status === "queued") return look.cyan("◌");
  return look.yellow("○");
}

/** Two columns with a line between them. */
function beside(
  left: readonly string[],
  right: readonly string[],
  width: number,
  look: Look,
  height: number,
): string[] {
  return Array.from({ length: height }, (_, row) => {
    const line = left[row] ?? "";
    const padded = `${line}${" ".repeat(Math.max(0, width - visibleWidth(line)))}`;
    return `${padded}${look.dim("│")} ${right[row] ?? ""}`;
  });
}
