/**
 * What is said of a command that ran against a guarded file: the system's own words ("Read-only file system", "Is a
 * directory") name neither the sandbox nor a remedy.
 *
 * Invariant: one line, and only where the output names a guarded path and an error that guarding it gives.
 */

/** As the system and Node word it. */
const REFUSED =
  /read-only file system|is a directory|file exists|device or resource busy|permission denied|\b(?:EROFS|EISDIR|EEXIST|EBUSY|EACCES)\b/i;
/** Characters of output that are looked at, from its end. */
const LOOKED_AT = 20_000;

/** Undefined where the command met none. `guarded` are paths relative to the workspace. */
export function guardedNote(output: string, guarded: readonly string[], workspace: string): string | undefined {
  const lines = output
    .slice(-LOOKED_AT)
    .split("\n")
    .filter((line) => REFUSED.test(line))
    .map((line) => line.replaceAll(`${workspace}/`, "").replaceAll("./", ""));
  if (lines.length === 0) return undefined;
  const met = guarded.filter((path) => lines.some((line) => names(line, path)));
  if (met.length === 0) return undefined;
  const what = met.includes(".git") ? "git init" : "it";
  const are = met.length === 1 ? "is" : "are";
  return `[sandbox: ${met.join(", ")} ${are} guarded: no command here can make or change what steers Rotunda, git or editors. If it is wanted, ask the person to do ${what} in a terminal of their own (!command in Rotunda runs in the sandbox too). Where it does not exist, an empty folder holds its place.]`;
}

/** The path itself or something below it, not the end of another path or name. */
function names(line: string, path: string): boolean {
  for (let at = line.indexOf(path); at >= 0; at = line.indexOf(path, at + 1)) {
    const before = line[at - 1] ?? "";
    const after = line[at + path.length] ?? "";
    if (!/[\w./-]/.test(before) && !/[\w-]/.test(after)) return true;
  }
  return false;
}
