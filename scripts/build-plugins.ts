/**
 * What the build changes in packages, so that a start loads and evaluates only what it uses.
 *
 * Invariant: nothing behaves differently, it only comes later or not at all; a package whose text is not the expected
 * one any more fails the build instead of being changed wrongly.
 */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "esbuild";

/** Our pools never speak HTTP/2 (`allowH2: false`), and `node:http2` would cost every start several milliseconds. */
const withoutHttp2: Plugin = {
  name: "without-http2",
  setup({ onLoad }) {
    onLoad({ filter: /undici[\\/]lib[\\/]dispatcher[\\/]client-h2\.js$/ }, () => ({
      contents: 'module.exports = () => { throw new Error("HTTP/2 is not built in"); };',
    }));
  },
};

/** Only English messages are ever shown: all languages together are half of zod. */
const onlyEnglish: Plugin = {
  name: "only-english",
  setup({ onLoad }) {
    onLoad({ filter: /zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path }) => ({
      contents: 'export { default as en } from "./en.js";',
      resolveDir: dirname(path),
    }));
  },
};

/**
 * An `import` of a built-in module reads every one of its exports, and some are getters that load much: the streams of
 * `process`, `fs.promises`, all of `util`. Asked for like this it gives what is used of it and no more; `node:crypto`,
 * a third of Node's own start, is loaded when one of its functions is first called.
 */
const builtinsAsUsed: Plugin = {
  name: "builtins-as-used",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^node:(crypto|fs|process|util)$/ }, ({ kind, path }) =>
      kind === "import-statement" ? { path, namespace: "builtin" } : undefined,
    );
    onLoad({ filter: /./, namespace: "builtin" }, ({ path }) => {
      const whole = `process.getBuiltinModule("${path}")`;
      const exported = Object.entries(process.getBuiltinModule(path) ?? {}).flatMap(([name, value]) => {
        if (!/^[A-Za-z]\w*$/.test(name)) return [];
        const isFunction = typeof value === "function" && /^[a-z]/.test(name);
        if (path === "node:crypto" && isFunction)
          return `export const ${name} = (...given) => ${whole}.${name}(...given);`;
        return `export const ${name} = /* @__PURE__ */ (() => ${whole}.${name})();`;
      });
      const all = path === "node:crypto" ? [] : [`export default /* @__PURE__ */ (() => ${whole})();`];
      return { contents: [...all, ...exported].join("\n") };
    });
  },
};

/** Changes the text of the files that `filter` names; each change must be possible at least once. */
function changed(name: string, filter: RegExp, changes: readonly (readonly [RegExp, string])[]): Plugin {
  return {
    name,
    setup({ onLoad }) {
      onLoad({ filter }, ({ path }) => {
        let contents = readFileSync(path, "utf8");
        for (const [what, by] of changes) {
          const before = contents;
          contents = contents.replace(what, by);
          if (contents === before) return { errors: [{ text: `${name}: ${path} has no ${what.source}` }] };
        }
        return { contents };
      });
    },
  };
}

/** Commander starts processes for commands that are programs of their own; we have none. */
const commanderWithoutProcesses = changed("commander-without-processes", /commander[\\/]lib[\\/]command\.js$/, [
  [
    /^import childProcess from 'node:child_process';$/m,
    'const childProcess = { spawn: (...given) => process.getBuiltinModule("node:child_process").spawn(...given) };',
  ],
]);

/** Markdown is loaded after the first frame: the package's index has all of it at once, so it is taken out there. */
const screenWithoutMarkdown = changed("screen-without-markdown", /[\\/]pi-tui[\\/]dist[\\/]index\.js$/, [
  [/^export \{ Marked \} from "marked";$/m, ""],
  [/^export \{ Markdown \} from "\.\/components\/markdown\.js";$/m, ""],
  [/^export \{ renderLatex \} from "\.\/latex\.js";$/m, ""],
]);

const markdownAlone: Plugin = {
  name: "markdown-alone",
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^@earendil-works\/pi-tui$/ }, async ({ importer, kind, resolveDir, pluginData }) => {
      if (pluginData === "found" || !/[\\/]tui[\\/]markdown\.ts$/.test(importer)) return undefined;
      const { path, errors } = await resolve("@earendil-works/pi-tui", { kind, resolveDir, pluginData: "found" });
      return errors.length > 0 ? { errors } : { path: join(dirname(path), "components", "markdown.js") };
    });
  },
};

export const plugins: Plugin[] = [
  withoutHttp2,
  onlyEnglish,
  builtinsAsUsed,
  commanderWithoutProcesses,
  screenWithoutMarkdown,
  markdownAlone,
];
