/**
 * glob: files of the workspace by a path pattern.
 *
 * Invariant: only names inside the workspace are told, sorted; git's own files, `node_modules` and what
 * `.gitignore` files exclude are left out; links are not followed; count and time are bounded.
 */
import { stat } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import type { Tool } from "../types/tool.ts";
import { isWithin } from "../util/workspace-path.ts";
import { compilePattern } from "./glob-pattern.ts";
import { answering, explain, filledText, InputError, optionalText, pathSubject, searchRoot } from "./input.ts";
import { type SearchOptions, search } from "./ripgrep.ts";

const MAX_FILES = 1000;

export function createGlobTool(options: SearchOptions): Tool {
  return {
    name: "glob",
    server: "rotunda",
    serverName: "glob",
    description: `Finds files by a path pattern and answers their paths, sorted and relative to the workspace (at most ${MAX_FILES}). \`*\` and \`?\` stand for characters of a name, \`**\` for any folders, \`{a,b}\` for either: \`src/**/*.{ts,tsx}\`. What .gitignore excludes, .git and node_modules are left out.`,
    access: "read",
    confined: true,
    repeatable: true,
    parallel: true,
    advice:
      "Find files by name with glob and by content with grep, not with find or ls in bash. `*.ts` looks in one folder, `**/*.ts` in all below it.",
    input: {
      type: "object",
      properties: {
        pattern: { type: "string", description: "The pattern, relative to `path`." },
        path: { type: "string", description: "Folder to look in. Default: the workspace." },
      },
      required: ["pattern"],
      additionalProperties: false,
    },
    subject: async (input, workspace) => {
      return pathSubject(workspace, [typeof input.path === "string" && input.path !== "" ? input.path : "."]);
    },
    run: answering(async (input, context) => {
      const path = optionalText(input, "path") ?? ".";
      const { root, real } = await searchRoot(context.workspace, path);
      const stats = await stat(real).catch((error: unknown) => {
        throw new InputError(`${path}: ${explain(error)}`);
      });
      if (!stats.isDirectory()) throw new InputError(`${path} is not a folder`);
      const pattern = relativePattern(filledText(input, "pattern"), real);
      const matches = compilePattern(pattern);
      const found: string[] = [];
      let refused: unknown;
      const args = ["--files", "--null", "--glob=!.git"];
      if (!pattern.includes("node_modules")) args.push("--glob=!node_modules");
      const { ended } = await search(
        {
          args,
          folder: real,
          workspace: root,
          signal: context.signal,
          separator: "\0",
          onLine: (line) => {
            const name = line.replace(/^\.\//, "");
            try {
              if (matches(name)) found.push(relative(root, join(real, name)));
            } catch (thrown) {
              refused = thrown;
              return false;
            }
            return found.length <= MAX_FILES;
          },
        },
        options,
      );
      if (refused) throw refused;
      const shown = found.slice(0, MAX_FILES).sort();
      if (ended === "enough") shown.push(`[more than ${MAX_FILES} files match; use a narrower pattern or path]`);
      if (ended === "time") shown.push("[the search took too long and was ended; use a narrower path]");
      return { text: found.length === 0 && ended === "complete" ? "No files found" : shown.join("\n") };
    }),
  };
}

function relativePattern(pattern: string, folder: string): string {
  if (pattern.split(/[/{},]/).includes(".."))
    throw new InputError("pattern cannot contain `..`; give the folder as path");
  if (!isAbsolute(pattern)) return pattern.endsWith("/") ? `${pattern}**` : pattern;
  if (!isWithin(folder, pattern)) throw new InputError(`pattern must be relative to ${folder}`);
  return relative(folder, pattern);
}
