/** Patterns over paths, as permission rules have them. Invariant: the same pattern means the same to every reader. */
import { relative } from "node:path";
import { matchesName } from "./text.ts";

/** A pattern without a slash names a file anywhere; with one, a path in the workspace or an absolute path. */
export function matchesPath(pattern: string, path: string, workspace: string): boolean {
  const inWorkspace = relative(workspace, path).replaceAll("\\", "/");
  if (!pattern.includes("/")) return matchesName(pattern, inWorkspace.split("/").pop() ?? "");
  const expression = pathGlob(pattern.replace(/^\.\//, ""));
  return expression.test(pattern.startsWith("/") ? path : inWorkspace);
}

function pathGlob(pattern: string): RegExp {
  const source = pattern
    .split(/(\*\*\/|\*\*|\*|\?)/)
    .map((part) => {
      if (part === "**/") return "(?:[\\s\\S]*/)?";
      if (part === "**") return "[\\s\\S]*";
      if (part === "*") return "[^/]*";
      if (part === "?") return "[^/]";
      return part.replace(/[.+^${}()|[\]\\]/g, "\\$&");
    })
    .join("");
  return new RegExp(`^${source}$`, "u");
}
