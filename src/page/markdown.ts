/**
 * Markdown of a model, as nodes that can do nothing.
 *
 * Invariant: what marked makes is cleaned afterwards, by an allow-list, and only then becomes part of the page; nothing
 * of it is fetched from anywhere: a picture is a button that opens its address. No HTML text is ever assigned. What a
 * parser would not come back from is shown as the text that it is.
 */
import DOMPurify from "dompurify";
import { Lexer, Marked, type Token } from "marked";
import { isTooMuchWork, withoutDepths } from "../util/markdown-depth.ts";
import { codePoint, shown, splitHidden } from "./visible.tsx";

const marked = new Marked({ gfm: true, breaks: false });
// HTML in a model's text is text: it is shown, and not obeyed even where it would be harmless.
marked.use({
  renderer: {
    html({ text }) {
      return text.replace(/[&<>]/g, (sign) => (sign === "&" ? "&amp;" : sign === "<" ? "&lt;" : "&gt;"));
    },
  },
});

/** A paragraph that would take seconds is plain. */
class Reader extends Lexer {
  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (!isTooMuchWork(text)) return super.inlineTokens(text, tokens);
    tokens.push({ type: "text", raw: text, text, escaped: false });
    return tokens;
  }
}

/** Characters of a piece of markdown; what is longer is plain. */
const LONGEST = 100_000;

const TAGS =
  "p br hr h1 h2 h3 h4 h5 h6 strong em del code pre blockquote ul ol li a img table thead tbody tr th td input".split(
    " ",
  );
const ATTRIBUTES = ["href", "src", "alt", "title", "start", "align", "class", "type", "checked", "disabled"];

/** The nodes of a piece of markdown. */
export function renderMarkdown(text: string): DocumentFragment {
  try {
    if (text.length <= LONGEST) return rendered(withoutDepths(text));
  } catch {
    // Its parts lie in each other deeper than a parser can go.
  }
  const fragment = document.createDocumentFragment();
  fragment.append(make("p", "plain", text));
  showHidden(fragment);
  return fragment;
}

function rendered(text: string): DocumentFragment {
  const html = marked.parser(new Reader(marked.defaults).lex(text), marked.defaults);
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    // They hold no address, and would be held against what an address may be.
    ADD_URI_SAFE_ATTR: ["align", "start", "type"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const image of fragment.querySelectorAll("img")) image.replaceWith(pictureButton(image));
  for (const link of fragment.querySelectorAll("a")) dressLink(link);
  for (const box of fragment.querySelectorAll("input")) box.replaceWith(box.checked ? "☑ " : "☐ ");
  for (const code of fragment.querySelectorAll("pre")) code.replaceWith(codeBlock(code));
  for (const table of fragment.querySelectorAll("table")) wrapTable(table);
  // A heading within an answer stands below those of the page.
  for (const heading of fragment.querySelectorAll("h1,h2,h3,h4,h5,h6")) lowerHeading(heading);
  for (const element of fragment.querySelectorAll("[class]")) {
    if (!element.hasAttribute("data-ours")) element.removeAttribute("class");
  }
  showHidden(fragment);
  return fragment;
}

function make(tag: string, className: string, text = ""): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  element.setAttribute("data-ours", "");
  element.textContent = text;
  return element;
}

/** Nothing is loaded from anywhere until a person says so, and then by the browser in a tab of its own. */
function pictureButton(image: HTMLImageElement): HTMLElement {
  const address = image.getAttribute("src") ?? "";
  const description = image.getAttribute("alt") ?? "";
  const url = safeUrl(address);
  if (!url) return make("span", "picture-none", `[picture: ${shown(description)}]`);
  const link = document.createElement("a");
  link.className = "picture-link";
  link.setAttribute("data-ours", "");
  link.href = url.href;
  link.rel = "noopener noreferrer nofollow";
  link.target = "_blank";
  link.append(make("span", "picture-name", `Picture${description === "" ? "" : `: ${shown(description)}`}`));
  link.append(make("span", "link-host", shown(url.href.length > 120 ? `${url.href.slice(0, 120)}…` : url.href)));
  return link;
}

function safeUrl(address: string): URL | undefined {
  try {
    const url = new URL(address);
    return url.protocol === "https:" || url.protocol === "http:" ? url : undefined;
  } catch {
    return undefined;
  }
}

function dressLink(link: HTMLAnchorElement): void {
  if (link.hasAttribute("data-ours")) return;
  const address = link.getAttribute("href");
  if (address === null || address.startsWith("mailto:")) {
    if (address === null) link.replaceWith(...link.childNodes);
    return;
  }
  link.rel = "noopener noreferrer nofollow";
  link.target = "_blank";
  const url = safeUrl(address);
  link.title = url?.href ?? address;
  // Where it leads stands beside every text that does not say it.
  if (url && !saysHost(link.textContent ?? "", url)) {
    link.after(make("span", "link-host", ` ${url.host}`));
  }
}

/** Whether a text begins with the whole origin of an address: `https://bank.co` is not the beginning of `https://bank.com`. */
function saysHost(text: string, { protocol, host }: URL): boolean {
  const origin = `${protocol}//${host}`;
  const said = text.trim().toLowerCase();
  return said.startsWith(origin) && /^(?:[/?#]|$)/.test(said.slice(origin.length));
}

function codeBlock(code: HTMLElement): HTMLElement {
  const box = make("div", "code-block");
  const language = /language-([\w+#.-]{1,24})/.exec(code.querySelector("code")?.className ?? "")?.[1] ?? "";
  const head = make("div", "code-head");
  head.append(make("span", "code-language", language));
  const copy = make("button", "copy-button", "Copy") as HTMLButtonElement;
  copy.type = "button";
  copy.setAttribute("data-copy", "");
  head.append(copy);
  const body = document.createElement("pre");
  body.tabIndex = 0;
  body.setAttribute("role", "group");
  body.setAttribute("aria-label", language === "" ? "code" : `code, ${language}`);
  const inner = document.createElement("code");
  inner.textContent = (code.textContent ?? "").replace(/\n$/, "");
  body.append(inner);
  box.append(head, body);
  return box;
}

function wrapTable(table: HTMLTableElement): void {
  const box = make("div", "table-box");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "table");
  table.replaceWith(box);
  box.append(table);
}

/** All of one order: models skip orders as they like, and a reader who walks by headings must not be led astray. */
function lowerHeading(heading: Element): void {
  const lower = make("h3", `said-heading-${heading.tagName.slice(1)}`);
  lower.replaceChildren(...heading.childNodes);
  heading.replaceWith(lower);
}

function showHidden(fragment: DocumentFragment): void {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const hidden: Text[] = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (splitHidden(node.nodeValue ?? "").some((piece) => piece.hidden)) hidden.push(node as Text);
  }
  for (const node of hidden) {
    const pieces = splitHidden(node.nodeValue ?? "");
    node.replaceWith(
      ...pieces.map((piece) => (piece.hidden ? make("span", "hidden-character", codePoint(piece.text)) : piece.text)),
    );
  }
}

/**
 * Cuts a growing text into blocks that can be drawn each for itself: a block that is followed by another never changes.
 * Cuts stand at empty lines outside of fences, before lines that begin at the margin and belong to no list or quote.
 */
export class BlockCutter {
  readonly blocks: string[] = [];
  #text = "";
  /** Where the last block begins, and up to where lines have been looked at. */
  #begin = 0;
  #seen = 0;
  #fence = "";
  #empty = false;

  update(text: string): readonly string[] {
    if (!text.startsWith(this.#text.slice(0, 64)) || text.length < this.#text.length) this.#restart();
    this.#text = text;
    for (;;) {
      const end = text.indexOf("\n", this.#seen);
      if (end < 0) break;
      this.#line(text.slice(this.#seen, end), this.#seen);
      this.#seen = end + 1;
    }
    return [...this.blocks, text.slice(this.#begin)];
  }

  #line(line: string, at: number): void {
    const fence = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (this.#fence !== "") {
      if (fence.startsWith(this.#fence) && line.trim() === fence) this.#fence = "";
      this.#empty = false;
      return;
    }
    if (line.trim() === "") {
      this.#empty = true;
      return;
    }
    if (this.#empty && at > this.#begin && !/^(?:\s|[-*+>]\s|\d{1,9}[.)]\s)/.test(line)) {
      this.blocks.push(this.#text.slice(this.#begin, at));
      this.#begin = at;
    }
    this.#empty = false;
    if (fence !== "") this.#fence = fence;
  }

  #restart(): void {
    this.blocks.length = 0;
    this.#begin = this.#seen = 0;
    this.#fence = "";
    this.#empty = false;
  }
}
