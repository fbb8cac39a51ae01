/**
 * Skills: folders with a SKILL.md that says what they are good for (`.agents/skills`, `.claude/skills` of the
 * workspace and of the user).
 *
 * Invariant: a skill is words for the model and carries no authority; name and description are in the prompt,
 * the body is read when a model asks for it. The nearest skill of a name wins.
 */
import { readdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";

export interface Skill {
  name: string;
  description: string;
  /** Absolute path of its SKILL.md. */
  path: string;
}

const FOLDERS = [".agents/skills", ".claude/skills"];
const MAXIMUM_SKILLS = 100;
const MAXIMUM_DESCRIPTION = 1_024;
const MAXIMUM_BODY = 262_144;

/** Skills of the workspace, then of the user, in the order of their names. */
export async function findSkills(workspace: string, home: string): Promise<Skill[]> {
  const found = new Map<string, Skill>();
  for (const base of [workspace, home]) {
    for (const folder of FOLDERS) {
      for (const skill of await skillsIn(join(base, folder))) if (!found.has(skill.name)) found.set(skill.name, skill);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, MAXIMUM_SKILLS);
}

async function skillsIn(folder: string): Promise<Skill[]> {
  const names = await readdir(folder).catch(() => []);
  const skills = await Promise.all(names.map((name) => readSkill(join(folder, name, "SKILL.md"), name)));
  return skills.filter((skill) => skill !== undefined);
}

async function readSkill(path: string, folder: string): Promise<Skill | undefined> {
  try {
    const head = await frontMatter(path);
    const name = typeof head.name === "string" && head.name !== "" ? head.name : folder;
    const description = typeof head.description === "string" ? head.description.replace(/\s+/g, " ").trim() : "";
    if (!/^[A-Za-z0-9_.-]{1,64}$/.test(name) || description === "") return undefined;
    return { name, description: description.slice(0, MAXIMUM_DESCRIPTION), path: await realpath(path) };
  } catch {
    // No SKILL.md, or one that cannot be read: not a skill.
    return undefined;
  }
}

async function frontMatter(path: string): Promise<Record<string, unknown>> {
  const text = (await readFile(path, "utf8")).slice(0, MAXIMUM_BODY);
  const head = /^---\r?\n([\s\S]*?)\r?\n---/.exec(text)?.[1];
  if (head === undefined) return {};
  const { parse } = await import("../util/yaml.ts");
  const value: unknown = parse(head, { maxAliasCount: 10 });
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** The prompt's section; empty without skills. */
export function skillsSection(skills: readonly Skill[]): string {
  if (skills.length === 0) return "";
  const lines = skills.map(({ name, description }) => `- ${name}: ${description}`);
  return `# Skills\n\nBefore a task that one of these fits, read it with the skill tool and follow it.\n\n${lines.join("\n")}`;
}
