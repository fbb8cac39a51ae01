/**
 * The built-in tools, in the order in which models are shown them.
 *
 * Invariant: the order is fixed, so that the beginning of a prompt is the same from call to call.
 */
import type { Tool } from "../types/tool.ts";
import type { Sandbox } from "../util/sandbox.ts";
import { createBashTool } from "./bash.ts";
import { editTool } from "./edit.ts";
import { createGlobTool } from "./glob.ts";
import { createGrepTool } from "./grep.ts";
import { outOfReach } from "./out-of-reach.ts";
import { readTool } from "./read.ts";
import { readOutputTool } from "./read-output.ts";
import { createTaskTool } from "./task.ts";
import { todoTool } from "./todo.ts";
import { writeTool } from "./write.ts";

export interface BuiltinOptions {
  /** Asked at the first call that starts a process, never earlier. */
  sandbox: () => Promise<Sandbox>;
  /** What `task` can start. */
  profiles: readonly { name: string; description: string }[];
  /** Folders that no tool and no command may see: the state folder, the operator's settings. */
  hidden?: readonly string[];
}

export function createBuiltinTools({ sandbox, profiles, hidden = [] }: BuiltinOptions): Tool[] {
  const options = { sandbox, hidden };
  return [
    outOfReach(readTool, hidden),
    outOfReach(writeTool, hidden),
    outOfReach(editTool, hidden),
    createBashTool(options),
    outOfReach(createGlobTool(options), hidden),
    outOfReach(createGrepTool(options), hidden),
    todoTool,
    createTaskTool(profiles),
    readOutputTool,
  ];
}
