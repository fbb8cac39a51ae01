/**
 * Checks a configuration file against the schema.
 *
 * Invariant: an error names the file and the key.
 */
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import type { ConfigFile } from "./files.ts";
import type { RawConfig } from "./schema.ts";

export async function checked(file: ConfigFile, raw: JsonObject): Promise<RawConfig> {
  const { configSchema } = await import("./schema.ts");
  const result = configSchema.safeParse(raw);
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => {
    const at = issue.path.join(".");
    return `${at === "" ? "" : `${at}: `}${issue.message}`;
  });
  throw new RotundaError("config_invalid", `${file.path}: ${problems.join("; ")}`, {
    remedy: "docs/configuration.md names every key.",
  });
}
