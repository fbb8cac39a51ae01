/** skill: the body of a skill that the prompt names. Invariant: only files of skills that were found are read. */
import { readdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Tool } from "../types/tool.ts";
import { answering, filledText, InputError } from "./input.ts";

const MAXIMUM = 262_144;

export interface SkillFile {
  name: string;
  path: string;
}

export function createSkillTool(skills: readonly SkillFile[]): Tool {
  return {
    name: "skill",
    server: "rotunda",
    serverName: "skill",
    description: "Reads a skill: instructions for a kind of task. The prompt lists the skills by name.",
    access: "read",
    repeatable: true,
    input: {
      type: "object",
      properties: { name: { type: "string", description: "Name of the skill.", enum: skills.map(({ name }) => name) } },
      required: ["name"],
      additionalProperties: false,
    },
    run: answering(async (input) => {
      const name = filledText(input, "name");
      const skill = skills.find((one) => one.name === name);
      if (!skill)
        throw new InputError(`there is no skill ${name}; there are: ${skills.map((one) => one.name).join(", ")}`);
      const text = (await readFile(skill.path, "utf8")).slice(0, MAXIMUM);
      const folder = dirname(skill.path);
      const others = (await readdir(folder)).filter((file) => file !== "SKILL.md");
      const files = others.length > 0 ? `\n\nFiles beside it in ${folder}: ${others.join(", ")}` : "";
      return { text: `${text}${files}` };
    }),
  };
}
