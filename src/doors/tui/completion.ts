/**
 * Completion in the editor: commands after `/`, their arguments, files of the workspace after `@`.
 *
 * Invariant: files are listed as ripgrep sees them, without what .gitignore leaves out, and without names that nobody
 * could type (control characters); what is offered was cleaned, and what is put into the editor is the name as it is.
 */
import { spawn } from "node:child_process";
import { setImmediate } from "node:timers/promises";
import {
  type AutocompleteItem,
  type AutocompleteProvider,
  type AutocompleteSuggestions,
  fuzzyFilter,
} from "@earendil-works/pi-tui";
import { clean, typeable } from "./clean.ts";
import type { Command } from "./commands.ts";

const MOST_FILES = 50_000;
const SHOWN = 30;
/** Names that are looked at before a key that was hit meanwhile is heard. */
const PORTION = 1_000;
/** Milliseconds for which a list of files is good. */
const FRESH = 5_000;

export class Completion implements AutocompleteProvider {
  readonly triggerCharacters = ["@"];
  readonly #commands: readonly Command[];
  readonly #workspace: string;
  #files: { at: number; names: Promise<string[]> } | undefined;

  constructor(commands: readonly Command[], workspace: string) {
    this.#commands = commands;
    this.#workspace = workspace;
  }

  async getSuggestions(
    lines: string[],
    cursorLine: number,
    cursorCol: number,
    { signal }: { signal: AbortSignal; force?: boolean },
  ): Promise<AutocompleteSuggestions | null> {
    const before = (lines[cursorLine] ?? "").slice(0, cursorCol);
    const file = /(?:^|[\s(])(@[^\s]*)$/.exec(before)?.[1];
    if (file !== undefined) return this.#fileSuggestions(file, signal);
    if (cursorLine > 0 || !before.startsWith("/")) return null;
    const space = before.indexOf(" ");
    if (space === -1) return this.#commandSuggestions(before);
    const command = this.#commands.find(({ name }) => `/${name}` === before.slice(0, space));
    const prefix = before.slice(space + 1);
    const values = (await command?.values?.()) ?? [];
    const items = fuzzyFilter(values, prefix, (value) => value).map((value) => ({ value, label: clean(value) }));
    return items.length === 0 || items.some(({ value }) => value === prefix) ? null : { items, prefix };
  }

  #commandSuggestions(prefix: string): AutocompleteSuggestions | null {
    const items = this.#commands
      .filter(({ name }) => name.startsWith(prefix.slice(1)))
      .map(({ name, description }) => ({ value: `/${name}`, label: `/${name}`, description }));
    return items.length === 0 ? null : { items, prefix };
  }

  async #fileSuggestions(prefix: string, signal: AbortSignal): Promise<AutocompleteSuggestions | null> {
    const names = await this.#list();
    if (signal.aborted) return null;
    const wanted = prefix.slice(1);
    const found = wanted === "" ? names : await bestOf(names, wanted, signal);
    if (signal.aborted) return null;
    const items: AutocompleteItem[] = found.slice(0, SHOWN).map((name) => ({ value: `@${name}`, label: clean(name) }));
    return items.length === 0 ? null : { items, prefix };
  }

  #list(): Promise<string[]> {
    const now = performance.now();
    if (!this.#files || now - this.#files.at > FRESH) this.#files = { at: now, names: listFiles(this.#workspace) };
    return this.#files.names;
  }

  applyCompletion(
    lines: string[],
    cursorLine: number,
    cursorCol: number,
    item: AutocompleteItem,
    prefix: string,
  ): { lines: string[]; cursorLine: number; cursorCol: number } {
    const line = lines[cursorLine] ?? "";
    const head = line.slice(0, cursorCol - prefix.length);
    const value = `${item.value} `;
    const next = [...lines];
    next[cursorLine] = head + value + line.slice(cursorCol).replace(/^ /, "");
    return { lines: next, cursorLine, cursorCol: head.length + value.length };
  }
}

/** Those that fit best. */
async function bestOf(names: readonly string[], wanted: string, signal: AbortSignal): Promise<string[]> {
  let best: string[] = [];
  for (let at = 0; at < names.length && !signal.aborted; at += PORTION) {
    best = fuzzyFilter([...best, ...names.slice(at, at + PORTION)], wanted, (name) => name).slice(0, SHOWN);
    await setImmediate();
  }
  return best;
}

/** Relative paths, sorted; empty where ripgrep is missing. */
async function listFiles(workspace: string): Promise<string[]> {
  try {
    const { rgPath } = await import("@vscode/ripgrep");
    return await new Promise((resolve) => {
      const child = spawn(rgPath, ["--files", "--null", "--no-messages", "--no-config"], {
        cwd: workspace,
        stdio: ["ignore", "pipe", "ignore"],
        timeout: 5_000,
      });
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (text.length > MOST_FILES * 100) child.kill();
      });
      child.on("error", () => resolve([]));
      child.on("close", () =>
        resolve(
          text
            .split("\0")
            .filter((name) => name !== "" && name === typeable(name) && !/[\n\t]/.test(name))
            .slice(0, MOST_FILES)
            .sort(),
        ),
      );
    });
  } catch {
    return [];
  }
}
