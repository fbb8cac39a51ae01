/** What a shell line touches, for permissions. Invariant: a line that cannot be taken apart is said to be so. */
import type { CallSubject } from "../types/tool.ts";
import { simpleCommands } from "./shell.ts";
import { throwsAway } from "./throws-away.ts";

/** `line` as a model wrote it; anything but a text is a line that cannot be parsed. */
export function shellSubject(line: unknown): CallSubject {
  if (typeof line !== "string") return { commands: null };
  const commands = simpleCommands(line);
  return { commands, ...(throwsAway(line, commands) && { throwsAway: true }) };
}
