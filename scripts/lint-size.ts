/**
 * The linter's part that Biome does not have: files of up to 400 lines, and folders that import only what
 * they may (design: everything imports types/ and util/; only app.ts, main.ts and index.ts import anything else).
 *
 * Invariant: exits 1 if one file breaks a rule, and names every one. `--root` points it at another tree,
 * which is how its own test plants a violation.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

const MAXIMUM = 400;
const root = process.argv.includes("--root") ? (process.argv[process.argv.indexOf("--root") + 1] ?? ".") : ".";
const ROOTS = ["src", "test", "bench", "reliability", "scripts", "examples", "web"];
const problems: string[] = [];

for (const top of ROOTS) for (const path of files(join(root, top))) check(path);

function files(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => /\.tsx?$/.test(name)).map((name) => join(folder, name));
}

function check(path: string): void {
  const text = readFileSync(path, "utf8");
  const name = relative(root, path);
  const lines = text.split("\n").length - 1;
  if (lines > MAXIMUM) problems.push(`${name}: ${lines} lines, ${MAXIMUM} are allowed`);
  if (!name.startsWith("src/")) return;
  if (name.split("/").length > 4) problems.push(`${name}: src/ is at most two folders deep`);
  for (const [, target = ""] of text.matchAll(/(?:from|import\(?)\s*"(\.[^"]+)"/g)) checkImport(name, target);
}

function checkImport(name: string, target: string): void {
  const from = areaOf(name);
  const to = areaOf(join(name, "..", target));
  if (from === to || to === "types" || to === "util") {
    if ((from === "types" && to === "util") || (from === "util" && to !== "util" && to !== "types")) {
      problems.push(`${name} imports ${target}: ${from}/ imports nothing of ours`);
    }
    return;
  }
  if (from === "top" || (from === "testing" && to === "top")) return;
  problems.push(`${name} imports ${target}: ${from}/ may import only types/ and util/`);
}

/** "engine", "doors/cli", …; "top" for app.ts, main.ts and index.ts. */
function areaOf(path: string): string {
  const parts = path.split("/").slice(1);
  if (parts.length < 2) return "top";
  return parts[0] === "doors" ? `doors/${parts[1]}` : (parts[0] ?? "top");
}

if (problems.length > 0) {
  process.stderr.write(`${problems.join("\n")}\n`);
  process.exitCode = 1;
} else process.stdout.write("sizes and import directions: in order\n");
