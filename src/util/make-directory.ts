/**
 * A folder with those above it.
 *
 * Invariant: it ends. Node's own recursive mkdir tries for ever where a folder that is there says of a name in it that
 * there is no such place, as `/proc` does.
 */
import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** Does nothing where it is there already. `mode` holds for every folder that is made. Throws the system's error. */
export function makeDirectory(path: string, mode = 0o777): void {
  const above = dirname(path);
  if (above !== path && !isDirectory(above)) makeDirectory(above, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isDirectory(path)) throw error;
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
