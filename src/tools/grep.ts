/**
 * grep: lines of the workspace's files by a regular expression.
 *
 * Invariant: the expression runs in ripgrep, in time linear in the text; binary files, links and what
 * `.gitignore` excludes are left out; what is answered is bounded in lines and in the length of each.
 */

import { lstat, stat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import type { Tool } from "../types/tool.ts";
import { matchesPath } from "../util/path-pattern.ts";
import { sharesContent } from "../util/workspace-path.ts";
import {
  answering,
  explain,
  failure,
  filledText,
  InputError,
  optionalFlag,
  optionalText,
  pathSubject,
  searchRoot,
} from "./input.ts";
import { type SearchOptions, search } from "./ripgrep.ts";

const MAX_LINES = 1000;
const MAX_COLUMNS = 1000;

export function createGrepTool(options: SearchOptions): Tool {
  return {
    name: "grep",
    server: "rotunda",
    serverName: "grep",
    description: `Searches the contents of the workspace's text files by a regular expression (Rust syntax: no look-around, no back-references) and answers path:line:text, at most ${MAX_LINES} lines. What .gitignore excludes, .git and node_modules are left out unless path names them.`,
    access: "read",
    confined: true,
    repeatable: true,
    parallel: true,
    advice:
      "Search with grep before you read whole files, and narrow it with path and file_pattern. Escape characters that have a meaning in expressions: `foo\\(`.",
    input: {
      type: "object",
      properties: {
        pattern: { type: "string", description: "The regular expression." },
        path: { type: "string", description: "File or folder to search. Default: the workspace." },
        case_insensitive: { type: "boolean", description: "Ignore upper and lower case. Default false." },
        file_pattern: {
          type: "string",
          description: "Only files whose name matches: `*.ts`, or by path: `src/**/*.ts`.",
        },
      },
      required: ["pattern"],
      additionalProperties: false,
    },
    subject: async (input, workspace) => {
      return pathSubject(workspace, [typeof input.path === "string" && input.path !== "" ? input.path : "."]);
    },
    run: answering(async (input, context) => {
      const pattern = filledText(input, "pattern");
      const path = optionalText(input, "path") ?? ".";
      const filePattern = optionalText(input, "file_pattern");
      const { root, real } = await searchRoot(context.workspace, path);
      const stats = await stat(real).catch((error: unknown) => {
        throw new InputError(`${path}: ${explain(error)}`);
      });
      if (!stats.isDirectory() && !stats.isFile()) throw new InputError(`${path} is not a regular file or folder`);
      const folder = stats.isDirectory() ? real : dirname(real);
      const args = ["--line-number", "--with-filename", "--no-heading", "--null"];
      args.push(`--max-columns=${MAX_COLUMNS}`, "--max-columns-preview");
      if (stats.isDirectory()) args.push("--glob=!.git", "--glob=!node_modules");
      if (optionalFlag(input, "case_insensitive")) args.push("--ignore-case");
      if (filePattern?.includes("/")) args.push(`--glob=/${filePattern.replace(/^\.?\//, "")}`);
      else if (filePattern !== undefined) args.push(`--type-add=wanted:${filePattern}`, "--type=wanted");
      args.push(`--regexp=${pattern}`, "--", stats.isDirectory() ? "./" : `./${basename(real)}`);
      const found: Match[] = [];
      const hidden = context.hiddenPaths ?? [];
      const onLine = (line: string): boolean => {
        const end = line.indexOf("\0");
        if (end < 0) return true;
        const path = join(folder, line.slice(0, end));
        if (!hidden.some((pattern) => matchesPath(pattern, path, root))) {
          found.push({ path, text: line.slice(end + 1).replace(/\r$/, "") });
        }
        return found.length <= MAX_LINES;
      };
      const { ended } = await search({ args, folder, workspace: root, signal: context.signal, onLine }, options);
      const readable = await withoutForeign(found.slice(0, MAX_LINES), root);
      const lines = readable.map((match) => `${relative(root, match.path)}:${match.text}`);
      if (ended === "enough") lines.push(`[more than ${MAX_LINES} lines match; narrow the search]`);
      if (ended === "time")
        return failure([...lines, "[the search took too long and was ended; narrow it]"].join("\n"));
      return { text: lines.length === 0 ? "No matches found" : lines.join("\n") };
    }),
  };
}

interface Match {
  path: string;
  /** `line:text`. */
  text: string;
}

/** Leaves out files that have other names, which may lie outside the workspace: as `read` does. */
async function withoutForeign(found: readonly Match[], root: string): Promise<Match[]> {
  const paths = [...new Set(found.map(({ path }) => path))];
  const foreign = new Set<string>();
  for (const path of paths) {
    const stats = await lstat(path).catch(() => undefined);
    if (stats && stats.nlink > 1 && !sharesContent(root, path)) foreign.add(path);
  }
  return found.filter(({ path }) => !foreign.has(path));
}
