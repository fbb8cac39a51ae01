/**
 * Trust: what a file of the workspace may do once a person has seen it.
 *
 * Invariant: trust is keyed by the content of each item (command, arguments, environment, address) and
 * the folder of its file: an item that changes is asked about again, and so is the same text elsewhere. Tightening needs no trust.
 */
import { hash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TrustItem } from "../types/app.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { canonicalJson } from "../util/canonical.ts";
import { makeDirectory } from "../util/make-directory.ts";

interface TrustEntry {
  what: string;
  file: string;
  trustedAt: string;
}

export class TrustStore {
  readonly #path: string;
  #entries: Record<string, TrustEntry> | undefined;

  constructor(stateDirectory: string) {
    this.#path = join(stateDirectory, "trust.json");
  }

  #load(): Record<string, TrustEntry> {
    if (!this.#entries) {
      try {
        const stored: unknown = JSON.parse(readFileSync(this.#path, "utf8"));
        this.#entries = Object.fromEntries(Object.entries(stored ?? {}).filter(isEntry));
      } catch {
        // Nothing is trusted yet, or the file is damaged: then nothing is trusted either.
        this.#entries = {};
      }
    }
    return this.#entries;
  }

  isTrusted(item: TrustItem): boolean {
    return keyOf(item) in this.#load();
  }

  entries(): TrustEntry[] {
    return Object.values(this.#load());
  }

  add(items: readonly TrustItem[]): void {
    const entries = this.#load();
    for (const item of items) {
      entries[keyOf(item)] = { what: item.what, file: item.file, trustedAt: new Date().toISOString() };
    }
    this.#save(entries);
  }

  /** Takes back what was trusted in a file, or below a directory. Returns how much it was. */
  revoke(path: string): number {
    const entries = this.#load();
    const keys = Object.keys(entries).filter((key) => {
      const file = entries[key]?.file ?? "";
      return file === path || file.startsWith(`${path}/`);
    });
    for (const key of keys) delete entries[key];
    this.#save(entries);
    return keys.length;
  }

  #save(entries: Record<string, TrustEntry>): void {
    makeDirectory(dirname(this.#path), 0o700);
    const temporary = `${this.#path}.${process.pid}`;
    writeFileSync(temporary, `${JSON.stringify(entries, null, 2)}\n`, { mode: 0o600 });
    renameSync(temporary, this.#path);
  }
}

function isEntry(pair: [string, unknown]): pair is [string, TrustEntry] {
  const entry = pair[1] as Partial<TrustEntry> | null;
  return [entry?.what, entry?.file, entry?.trustedAt].every((value) => typeof value === "string");
}

function keyOf(item: TrustItem): string {
  const { what, content }: { what: string; content: Json } = item;
  // A relative command means another program in another folder.
  const folder = dirname(item.file);
  return hash("sha256", canonicalJson({ what, content, folder } satisfies JsonObject));
}

/** Loopback addresses are this machine: a project may name them without being trusted. */
export function isLoopback(url: string): boolean {
  try {
    const { hostname } = new URL(url);
    return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
  } catch {
    return false;
  }
}
