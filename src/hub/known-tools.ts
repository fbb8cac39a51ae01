/**
 * Known tools: what is known of one server's tools, and remembered for the next process.
 *
 * Invariant: the pinned list changes only here; the list of tools is the same array as long as nothing in it changes.
 */

import type { ServerConfig } from "../types/config.ts";
import { visible } from "../util/text.ts";
import type { Listing } from "./definitions.ts";
import { describe } from "./failures.ts";
import {
  acceptChange,
  type Era,
  listKey,
  type Manifest,
  manifestKey,
  mergeListing,
  type PinnedTool,
  readManifest,
  writeManifest,
} from "./manifest.ts";

/** Milliseconds. */
const ERA_KEPT = 24 * 60 * 60 * 1000;
const MAX_WARNINGS = 20;

export interface KnownToolsOptions {
  config: ServerConfig;
  /** Where manifests are kept. */
  directory: string;
  /** False: only read, never written. */
  keeps: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
  warn(text: string): void;
  onChange(): void;
}

export class KnownTools {
  readonly #options: KnownToolsOptions;
  /** The configuration's own name for what is remembered of it. */
  readonly key: string;
  #manifest: Manifest | undefined;
  #present: readonly PinnedTool[] | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: KnownToolsOptions) {
    this.#options = options;
    this.key = manifestKey(options.config);
    this.#hold(readManifest(options.directory, this.key));
  }

  #hold(manifest: Manifest | undefined): void {
    this.#manifest = manifest;
    this.#present = manifest?.tools.filter((tool) => !tool.absent);
  }

  /** Tools of the last listing, in order; undefined while there has never been one. */
  get tools(): readonly PinnedTool[] | undefined {
    return this.#present;
  }

  /** The generation of the protocol that has worked lately. */
  get era(): Era | undefined {
    const era = this.#manifest?.era;
    return era && this.#options.now() - era.at < ERA_KEPT ? era.kind : undefined;
  }

  take({ tools, warnings }: Listing, era: Era): void {
    const { config, warn, now } = this.#options;
    for (const warning of warnings.slice(0, MAX_WARNINGS)) warn(`${config.name}: left out: ${warning}`);
    const known = this.#manifest;
    const merged = mergeListing(known?.tools ?? [], tools);
    const changed = merged.filter((tool) => tool.previous && !tool.absent).map((tool) => tool.name);
    const sameTools = known !== undefined && listKey(known.tools) === listKey(merged);
    if (sameTools && known.era?.kind === era && this.era !== undefined) return;
    if (changed.length > 0 && !sameTools)
      warn(`${config.name}: changed since they were pinned: ${visible(changed.join(", "))}`);
    this.#keep({ tools: merged, era: { kind: era, at: now() } });
  }

  #keep(manifest: Manifest): void {
    const { config, directory, keeps, warn, onChange } = this.#options;
    this.#hold(manifest);
    onChange();
    if (!keeps) return;
    this.#saving = this.#saving
      .then(() => writeManifest(directory, this.key, manifest))
      .catch((error: unknown) => warn(`${config.name}: tool list not kept: ${describe(error)}`));
  }

  /** A person has seen the change of a tool: its present definition is the pinned one from now on. */
  accept(name: string): void {
    const manifest = this.#manifest && acceptChange(this.#manifest, name);
    if (manifest) this.#keep(manifest);
  }

  /** Resolves when what is known is on disk. */
  async saved(): Promise<void> {
    await this.#saving;
  }
}
