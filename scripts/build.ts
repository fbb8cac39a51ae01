/**
 * Builds `dist/`: the program as a few lazily loaded chunks (esbuild), the page, and the public types (tsc).
 *
 * Invariant: `dist/` is replaced whole, when everything of it is there; every module that a command does not need stays in a chunk that the command does not load.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { buildPage } from "./build-page.ts";
import { plugins } from "./build-plugins.ts";
import { putStartsTogether } from "./build-starts.ts";

const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

// Whoever runs the program meanwhile finds the old one whole until the new one is.
const NEXT = `dist.${process.pid}`;
const STAGE = `${NEXT}/stage`;

for (const left of readdirSync(".").filter((name) => /^dist\.\d+$/.test(name) && !isAlive(Number(name.slice(5))))) {
  rmSync(left, { recursive: true, force: true });
}
const { metafile } = await build({
  entryPoints: { main: "src/main.ts", index: "src/index.ts", testing: "src/testing/index.ts" },
  outdir: STAGE,
  metafile: true,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node24",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "linked",
  external: ["@vscode/ripgrep"],
  define: {
    ROTUNDA_VERSION: JSON.stringify(version),
    // ws would look for two packages with native code, which are not there.
    "process.env.WS_NO_BUFFER_UTIL": '"1"',
    "process.env.WS_NO_UTF_8_VALIDATE": '"1"',
  },
  banner: {
    // Only built-in modules are ever required; a `createRequire` in each of the chunks takes longer than most of them.
    js: "const require=process.getBuiltinModule;",
  },
  logLevel: "warning",
  plugins,
});
await putStartsTogether(metafile.outputs, STAGE, NEXT);
const licences = readdirSync(STAGE).filter((name) => name.endsWith(".LEGAL.txt"));
const texts = new Set(licences.map((name) => readFileSync(`${STAGE}/${name}`, "utf8").trim()));
writeFileSync(`${NEXT}/LEGAL.txt`, `${[...texts].join("\n\n")}\n`);
rmSync(STAGE, { recursive: true });
await buildPage(`${NEXT}/page`);

const compiler = ["node_modules/typescript/lib/tsc.js", "-p", "tsconfig.build.json", "--outDir", `${NEXT}/types`];
const types = spawnSync(process.execPath, compiler, { stdio: "inherit" });
if (types.status !== 0) {
  rmSync(NEXT, { recursive: true });
  process.exit(types.status ?? 1);
}
const old = `${NEXT}.old`;
if (existsSync("dist")) renameSync("dist", old);
renameSync(NEXT, "dist");
rmSync(old, { recursive: true, force: true });

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
