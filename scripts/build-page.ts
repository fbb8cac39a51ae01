/**
 * Builds `dist/page/`: the page as hashed files, each with its compressed forms beside it.
 *
 * Invariant: what the first view needs of script is at most 60 kB compressed, or the build fails; every name but
 * index.html changes with its content, so it may be kept for ever.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build, type Metafile } from "esbuild";

/** Bytes of compressed script (brotli) for the first view. */
const MOST = 60_000;
const ENTRY = "src/page/main.tsx";
const STYLE = "src/page/page.css";

export interface PageSize {
  /** Bytes of compressed script that the first view loads. */
  script: number;
  /** Bytes of compressed style. */
  style: number;
}

/** Into this folder, which is emptied first. Throws where the first view needs too much. */
export async function buildPage(folder: string): Promise<PageSize> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { metafile } = await build({
    entryPoints: [ENTRY, STYLE],
    outdir: folder,
    entryNames: "[name]-[hash]",
    chunkNames: "chunk-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: ["chrome111", "firefox114", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    minify: true,
    legalComments: "linked",
    metafile: true,
    logLevel: "warning",
  });
  const script = outputOf(metafile, ENTRY);
  const style = outputOf(metafile, STYLE);
  const icon = hashed(folder, "icon.svg", readFileSync("src/page/icon.svg", "utf8"));
  const manifest = hashed(folder, "manifest.webmanifest", manifestText(icon));
  const first = firstView(metafile, script, folder);
  writeFileSync(join(folder, "index.html"), indexText({ first, style, icon, manifest }));
  for (const name of readdirSync(folder)) compress(join(folder, name));
  const size = { script: sum(first.map((name) => compressedSize(folder, name))), style: compressedSize(folder, style) };
  if (size.script > MOST) throw new Error(`the first view needs ${size.script} bytes of script; ${MOST} are allowed`);
  return size;
}

function outputOf({ outputs }: Metafile, entry: string): string {
  const found = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === entry);
  if (!found) throw new Error(`esbuild made nothing of ${entry}`);
  return basename(found[0]);
}

/** The entry and every chunk that it imports before it runs. */
function firstView({ outputs }: Metafile, entry: string, folder: string): string[] {
  const wanted = [entry];
  for (const name of wanted) {
    for (const { path, kind } of outputs[join(folder, name)]?.imports ?? []) {
      if (kind === "import-statement" && !wanted.includes(basename(path))) wanted.push(basename(path));
    }
  }
  return wanted;
}

function hashed(folder: string, name: string, text: string): string {
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 8);
  const file = name.replace(".", `-${digest}.`);
  writeFileSync(join(folder, file), text);
  return file;
}

function manifestText(icon: string): string {
  return JSON.stringify({
    name: "Rotunda",
    short_name: "Rotunda",
    start_url: "/",
    display: "standalone",
    background_color: "#16191b",
    theme_color: "#16191b",
    icons: [{ src: `/page/${icon}`, sizes: "any", type: "image/svg+xml" }],
  });
}

interface Names {
  first: readonly string[];
  style: string;
  icon: string;
  manifest: string;
}

function indexText({ first, style, icon, manifest }: Names): string {
  const [entry, ...chunks] = first;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<meta name="color-scheme" content="light dark">
<title>Rotunda</title>
<link rel="icon" type="image/svg+xml" href="/page/${icon}">
<link rel="manifest" href="/page/${manifest}">
<link rel="stylesheet" href="/page/${style}">
${chunks.map((name) => `<link rel="modulepreload" href="/page/${name}">`).join("\n")}
<script type="module" src="/page/${entry}"></script>
</head>
<body>
<div id="root"></div>
<noscript>This page needs JavaScript. Without it: rotunda chat, in a terminal.</noscript>
</body>
</html>
`;
}

function compress(path: string): void {
  const bytes = readFileSync(path);
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, quality));
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
}

function compressedSize(folder: string, name: string): number {
  return readFileSync(join(folder, `${name}.br`)).length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

if (import.meta.main) {
  const { script, style } = await buildPage("dist/page");
  process.stdout.write(`page: first view ${script} bytes of script, ${style} of style, compressed\n`);
}
