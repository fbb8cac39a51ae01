#!/usr/bin/env node
// Launcher. Invariant: it runs on any Node, so that an old one gets a clear word instead of a syntax error,
// and it loads nothing that the command does not need.
import * as nodeModule from "node:module";

const [major] = process.versions.node.split(".");
if (Number(major) < 24) {
  process.stderr.write(
    `rotunda: needs Node.js 24 or newer, this is ${process.version}. Install Node.js 24 (or, in a checkout, run "npm install" once and then "npx rotunda").\n`,
  );
  process.exit(2);
}
if (process.argv.length === 3 && (process.argv[2] === "--version" || process.argv[2] === "-V")) {
  const { readFileSync } = await import("node:fs");
  process.stdout.write(`${JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version}\n`);
} else {
  nodeModule.enableCompileCache?.();
  const { main } = await import("../dist/main.js");
  await main(process.argv);
}
