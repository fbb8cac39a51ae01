/**
 * Entries that are left out: models, agents and MCP servers with a fault of their own, or without trust.
 *
 * Invariant: each is told in one line that names it and the remedy, and nothing else is left out with it. Where the model
 * that would be the default is left out, no other one takes its place: what is said goes to nobody who was not meant.
 */
import type { Config, LeftOutEntry, ModelConfig } from "../types/config.ts";
import { EntryFault } from "./expand.ts";
import type { Part } from "./normalize.ts";

/** The part's value; undefined where it has a fault of its own, which is then told. Throws what concerns more than it. */
export function orLeftOut<T>(config: Config, { value, entry }: Part<T>): T | undefined {
  try {
    return value();
  } catch (thrown) {
    if (!entry || !(thrown instanceof EntryFault)) throw thrown;
    const { kind, name, quiet } = entry;
    const { why, remedy = "" } = thrown;
    if (kind === "model" && config.models.length === 0 && !config.leftOut?.some(({ isDefault }) => isDefault)) {
      leaveOut(config, { kind, name, why, remedy, isDefault: true });
    } else leaveOut(config, { kind, name, why, remedy });
    const what = kind === "server" ? "MCP server" : kind;
    if (!quiet) config.warnings.push(`${what} ${name} is left out: ${why}. ${remedy}.`);
    return undefined;
  }
}

export function leaveOut(config: Config, entry: LeftOutEntry): void {
  config.leftOut = [...(config.leftOut ?? []), entry];
}

/**
 * When all is merged: what a weaker file has after all is not left out, and whoever was made the default by other means
 * than the order of the files (`first` of them) is it.
 */
export function settleLeftOut(config: Config, first: ModelConfig | undefined, wished: string | undefined): void {
  const names = {
    model: config.models.map(({ id }) => id),
    agent: (config.agents ?? []).map(({ id }) => id),
    server: config.servers.map(({ name }) => name),
  };
  const left = (config.leftOut ?? []).filter(({ kind, name }) => !names[kind].includes(name));
  const isWished = left.some(({ kind, name }) => kind === "model" && name === wished);
  const isChosen = config.models[0] !== first || names.model.includes(wished ?? "");
  config.leftOut = left.map(({ isDefault = false, ...entry }) => {
    const counts = isWished ? entry.kind === "model" && entry.name === wished : isDefault && !isChosen;
    return counts ? { ...entry, isDefault: true } : entry;
  });
}
