/**
 * The local token: whoever can read the state directory may do everything.
 *
 * Invariant: 256 random bits in a file that only its owner can read; made once, by whoever comes first.
 */
import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeDirectory } from "./make-directory.ts";

/** The token's text, or undefined where none was made yet. */
export function readLocalToken(stateDirectory: string): string | undefined {
  try {
    const text = readFileSync(join(stateDirectory, "token"), "utf8").trim();
    return text === "" ? undefined : text;
  } catch {
    return undefined;
  }
}

/** The token's text; it is made if there is none. */
export function ensureLocalToken(stateDirectory: string): string {
  const known = readLocalToken(stateDirectory);
  if (known !== undefined) return known;
  makeDirectory(stateDirectory, 0o700);
  const draft = join(stateDirectory, `token.${process.pid}.${randomBytes(4).toString("hex")}`);
  writeFileSync(draft, `${randomBytes(32).toString("hex")}\n`, { mode: 0o600 });
  try {
    // Of two processes that begin at once, one makes the link and both read the same file.
    linkSync(draft, join(stateDirectory, "token"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const made = readLocalToken(stateDirectory);
  if (made === undefined) throw new Error(`the local token in ${stateDirectory} cannot be read`);
  return made;
}
