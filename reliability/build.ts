/**
 * The program under test: a copy of the sources, changed where a mutant is wanted, and built in a folder of its own.
 *
 * Invariant: nothing of the working tree is changed, and nobody who builds there meanwhile changes what is tested.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { plugins } from "../scripts/build-plugins.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

export interface Build {
  folder: string;
  /** The launcher. */
  rotunda: string;
  /** A program of `reliability/programs`, built. */
  program(name: string): string;
  remove(): void;
}

/** A change of one file: each text must stand in it exactly once. */
export interface Change {
  /** From the root of the project. */
  file: string;
  from: string;
  to: string;
}

/** Builds the sources as they are now, with these changes. Throws where a change does not fit any more. */
export async function makeBuild(changes: readonly Change[] = []): Promise<Build> {
  const folder = mkdtempSync(join(process.env.ROTUNDA_RELIABILITY_DIR ?? tmpdir(), "rotunda-built-"));
  for (const name of ["src", "bin", "reliability/programs", "package.json"]) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  for (const change of changes) apply(folder, change);
  const programs = readdirSync(join(folder, "reliability/programs")).filter((name) => name.endsWith(".ts"));
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
  await build({
    absWorkingDir: folder,
    entryPoints: {
      main: "src/main.ts",
      ...Object.fromEntries(programs.map((name) => [basename(name, ".ts"), `reliability/programs/${name}`])),
    },
    outdir: "dist",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    external: ["@vscode/ripgrep", "pg-native"],
    define: { ROTUNDA_VERSION: JSON.stringify(version) },
    banner: { js: "const require=process.getBuiltinModule;" },
    logLevel: "error",
    plugins,
  });
  return {
    folder,
    rotunda: join(folder, "bin", "rotunda.js"),
    program: (name) => join(folder, "dist", `${name}.js`),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function apply(folder: string, { file, from, to }: Change): void {
  const path = join(folder, file);
  const parts = readFileSync(path, "utf8").split(from);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${from}`);
  writeFileSync(path, parts.join(to));
}
