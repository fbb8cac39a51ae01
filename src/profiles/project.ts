/**
 * What a workspace says to agents: AGENTS.md from the git root down (CLAUDE.md where there is none).
 *
 * Invariant: these are words for the model and carry no authority; their size is bounded.
 */
import { readFile, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";

const MAXIMUM = 32_768;

/** The text for the prompt; empty where there is nothing to say. */
export async function projectInstructions(workspace: string): Promise<string> {
  const folders: string[] = [];
  for (let folder = workspace; ; folder = dirname(folder)) {
    folders.unshift(folder);
    if (await exists(join(folder, ".git"))) break;
    if (dirname(folder) === folder) {
      folders.splice(0, folders.length, workspace);
      break;
    }
  }
  const sections: string[] = [];
  for (const folder of folders) {
    for (const name of ["AGENTS.md", "CLAUDE.md"]) {
      const text = await read(join(folder, name));
      if (text === undefined) continue;
      sections.push(`# ${join(relative(workspace, folder), name)}\n\n${text}`);
      break;
    }
  }
  return sections.join("\n\n");
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function read(path: string): Promise<string | undefined> {
  try {
    const text = (await readFile(path, "utf8")).trim();
    if (text.length <= MAXIMUM) return text === "" ? undefined : text;
    return `${text.slice(0, MAXIMUM)}\n[… cut after ${MAXIMUM} characters]`;
  } catch {
    return undefined;
  }
}
