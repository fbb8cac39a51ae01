/**
 * Builds `dist/`: the program as a few lazily loaded chunks (esbuild) and the public types (tsc).
 *
 * Invariant: every module that a command does not need stays in a chunk that the command does not load.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { build, type Plugin } from "esbuild";

const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

/** Our pools never speak HTTP/2 (`allowH2: false`), and `node:http2` would cost every start several milliseconds. */
const withoutHttp2: Plugin = {
  name: "without-http2",
  setup({ onLoad }) {
    onLoad({ filter: /undici[\\/]lib[\\/]dispatcher[\\/]client-h2\.js$/ }, () => ({
      contents: 'module.exports = () => { throw new Error("HTTP/2 is not built in"); };',
    }));
  },
};

rmSync("dist", { recursive: true, force: true });
await build({
  entryPoints: { main: "src/main.ts", index: "src/index.ts", testing: "src/testing/index.ts" },
  outdir: "dist",
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node24",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "linked",
  external: ["@vscode/ripgrep"],
  define: { ROTUNDA_VERSION: JSON.stringify(version) },
  banner: {
    js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
  },
  logLevel: "warning",
  plugins: [withoutHttp2],
});

const types = spawnSync(process.execPath, ["node_modules/typescript/lib/tsc.js", "-p", "tsconfig.build.json"], {
  stdio: "inherit",
});
process.exitCode = types.status ?? 1;
