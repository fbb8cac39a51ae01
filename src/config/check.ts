/**
 * Checks a configuration file against the schema.
 *
 * Invariant: the schema library is loaded only for a file that this version has not yet found valid. Of a
 * valid file only the fingerprint is kept, nothing of its content.
 */
import { hash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RotundaError, toRotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { canonicalJson } from "../util/canonical.ts";
import { makeDirectory } from "../util/make-directory.ts";
import type { ConfigFile } from "./files.ts";
import type { RawConfig } from "./schema.ts";

declare const ROTUNDA_VERSION: string;

const KEPT = 64;

/** The content in the schema's types. Throws `config_invalid` with the file, the key and what is wrong. */
export async function checked(file: ConfigFile, raw: JsonObject, stateDirectory: string): Promise<RawConfig> {
  const text = canonicalJson(raw);
  const fingerprint = hash("sha256", `${ROTUNDA_VERSION}\n${text}`);
  const path = join(stateDirectory, "valid-config.json");
  const known = readFingerprints(path);
  if (known.includes(fingerprint)) return raw as unknown as RawConfig;
  const { configSchema } = await import("./schema.ts");
  const result = configSchema.safeParse(raw);
  if (!result.success) {
    const { explain, keysRemedy } = await import("./explain.ts");
    throw new RotundaError("config_invalid", await explain(file, raw, result.error.issues), { remedy: keysRemedy() });
  }
  if (result.data.schedules) await checkSchedules(file, result.data.schedules);
  // A file whose values the schema had to convert is read through it every time.
  if (canonicalJson(result.data as unknown as Json) === text) remember(path, [fingerprint, ...known].slice(0, KEPT));
  return result.data;
}

/** The schema cannot say what an expression is, or which time zones this machine knows. */
async function checkSchedules(file: ConfigFile, schedules: NonNullable<RawConfig["schedules"]>): Promise<void> {
  const { nextMoment } = await import("../util/cron.ts");
  for (const { name, cron, timezone } of schedules) {
    await nextMoment(cron, timezone).catch((thrown: unknown) => {
      const { message, remedy } = toRotundaError(thrown);
      const details = remedy === undefined ? {} : { remedy };
      throw new RotundaError("config_invalid", `${file.path}: schedule ${name}: ${message}`, details);
    });
  }
}

function readFingerprints(path: string): string[] {
  try {
    const known: unknown = JSON.parse(readFileSync(path, "utf8"));
    return Array.isArray(known) ? known.filter((entry) => typeof entry === "string") : [];
  } catch {
    return [];
  }
}

/** A help for the next start, and no more: where it cannot be written, nothing is lost. */
function remember(path: string, fingerprints: readonly string[]): void {
  try {
    makeDirectory(join(path, ".."), 0o700);
    const temporary = `${path}.${process.pid}`;
    writeFileSync(temporary, JSON.stringify(fingerprints), { mode: 0o600 });
    renameSync(temporary, path);
  } catch {
    // Checked again next time.
  }
}
