/**
 * Builds `dist/`: the program as a few lazily loaded chunks (esbuild), the page, and the public types (tsc).
 *
 * Invariant: every module that a command does not need stays in a chunk that the command does not load.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { buildPage } from "./build-page.ts";
import { plugins } from "./build-plugins.ts";
import { putStartsTogether } from "./build-starts.ts";

const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

const STAGE = "dist/stage";

rmSync("dist", { recursive: true, force: true });
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
await putStartsTogether(metafile.outputs, STAGE, "dist");
const licences = readdirSync(STAGE).filter((name) => name.endsWith(".LEGAL.txt"));
const texts = new Set(licences.map((name) => readFileSync(`${STAGE}/${name}`, "utf8").trim()));
writeFileSync("dist/LEGAL.txt", `${[...texts].join("\n\n")}\n`);
rmSync(STAGE, { recursive: true });
await buildPage();

const types = spawnSync(process.execPath, ["node_modules/typescript/lib/tsc.js", "-p", "tsconfig.build.json"], {
  stdio: "inherit",
});
process.exitCode = types.status ?? 1;
