/**
 * Puts together what a start loads anyway: finding a module costs more than reading it, and esbuild makes a chunk for
 * each set of parts that shares something.
 *
 * Invariant: a group holds nothing but what its parts import statically, so no start evaluates more than before; what is
 * loaded when it is first needed stays a chunk of its own.
 */
import { basename } from "node:path";
import type { Metafile } from "esbuild";
import { rolldown } from "rolldown";

/** Groups, and the parts that are loaded together: each stands for all that it imports. */
const STARTS: Readonly<Record<string, readonly string[]>> = {
  command: ["src/main.ts", "src/doors/cli/program.ts"],
  application: ["src/app.ts", "src/config/load.ts"],
  turn: ["src/doors/cli/chat.ts", "src/models/registry.ts", "src/tools/builtin.ts"],
  endpoint: ["src/models/chat-completions.ts"],
  hub: ["src/hub/hub.ts"],
  server: [
    "src/doors/cli/serve.ts",
    "src/doors/http/server.ts",
    "src/doors/http/upkeep.ts",
    "src/doors/http/take-up.ts",
    "src/doors/http/timetable.ts",
    "src/config/watch.ts",
  ],
  screen: ["src/doors/cli/open-screen.ts", "src/doors/tui/door.ts"],
};
/** What two of the groups behind it share goes here, so that none of them loads another one. */
const SHARED = "application";

type Outputs = Metafile["outputs"];

function closureOf(outputs: Outputs, entries: readonly string[]): Set<string> {
  const found = new Set<string>();
  const open = entries.map((entry) => {
    const [file] = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === entry) ?? [];
    if (file === undefined) throw new Error(`${entry} is no part that is loaded by itself`);
    return file;
  });
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    for (const { kind, path, external } of outputs[file]?.imports ?? [])
      if (kind === "import-statement" && external !== true) open.push(path);
  }
  return found;
}

/** File → group. */
function groupsOf(outputs: Outputs): Map<string, string> {
  const groups = new Map<string, string>();
  const closures = Object.entries(STARTS).map(([name, entries]) => [name, closureOf(outputs, entries)] as const);
  const order = closures.map(([name]) => name);
  for (const [name, files] of closures) {
    for (const file of files) {
      const known = groups.get(file);
      if (known === undefined) groups.set(file, name);
      else if (order.indexOf(known) > order.indexOf(SHARED)) groups.set(file, SHARED);
    }
  }
  return new Map([...groups].map(([file, group]) => [basename(file), group]));
}

/** Reads the chunks of `stage`, and writes them to `folder` with those of a start put together. */
export async function putStartsTogether(outputs: Outputs, stage: string, folder: string): Promise<void> {
  const groups = groupsOf(outputs);
  const entries = Object.entries(outputs).filter(([, { entryPoint }]) => entryPoint !== undefined);
  const named = ["main", "index", "testing"].map((name) => [name, `${stage}/${name}.js`] as const);
  if (entries.length < named.length) throw new Error("the first pass has made too little");
  const bundle = await rolldown({
    input: Object.fromEntries(named),
    external: [/^node:/, "@vscode/ripgrep"],
    platform: "node",
    treeshake: false,
    preserveEntrySignatures: "allow-extension",
  });
  await bundle.write({
    dir: folder,
    format: "esm",
    // Without the first pass's own hash.
    chunkFileNames: ({ name }) => `${name.replace(/-[A-Z0-9]{8}$/, "")}-[hash].js`,
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: Object.keys(STARTS).map((name) => ({ name, test: (id) => groups.get(basename(id)) === name })),
    },
  });
  await bundle.close();
}
