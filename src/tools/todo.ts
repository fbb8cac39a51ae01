/**
 * TodoWrite: the plan of the work in hand.
 *
 * Invariant: stateless. Each call carries the whole list, so the last call of a conversation is the list, in
 * every branch of the tree its own.
 */
import type { JsonObject } from "../types/json.ts";
import type { Tool } from "../types/tool.ts";
import { answering, filledText, InputError, requiredList, requiredText } from "./input.ts";

const STATUSES = ["pending", "in_progress", "completed"];
const SYMBOLS: Record<string, string> = { pending: "⏳", in_progress: "🔧", completed: "✅" };

interface Todo {
  content: string;
  status: string;
  activeForm: string;
}

export const todoTool: Tool = {
  name: "TodoWrite",
  server: "rotunda",
  serverName: "TodoWrite",
  title: "Todo list",
  description:
    "Writes the list of steps of the work in hand and their state. Every call gives the whole list anew; an empty list clears it. At most one step may be in progress.",
  access: "read",
  repeatable: true,
  parallel: false,
  advice:
    "Keep a list for work of three steps or more, not for less. Mark a step in_progress when you begin it and completed as soon as it is done, one at a time; never call a step completed that failed.",
  input: {
    type: "object",
    properties: {
      todos: {
        type: "array",
        description: "All steps, in order.",
        items: {
          type: "object",
          properties: {
            content: { type: "string", description: "What is to be done: `Fix the parser`." },
            status: { type: "string", enum: STATUSES },
            activeForm: { type: "string", description: "What is being done: `Fixing the parser`." },
          },
          required: ["content", "status", "activeForm"],
          additionalProperties: false,
        },
      },
    },
    required: ["todos"],
    additionalProperties: false,
  },
  run: answering(async (input) => {
    const todos = requiredList(input, "todos", "todo").map(parse);
    const active = todos.filter(({ status }) => status === "in_progress").length;
    if (active > 1) throw new InputError(`only ONE task can be 'in_progress' at a time, found ${active}`);
    const text = render(todos);
    return { text, display: { kind: "todo", text } };
  }),
};

function parse(entry: JsonObject, index: number): Todo {
  const where = `todo #${index + 1}: `;
  const content = filledText(entry, "content", where);
  const status = requiredText(entry, "status", where);
  if (!STATUSES.includes(status)) throw new InputError(`${where}status must be one of ${STATUSES.join(", ")}`);
  return { content, status, activeForm: filledText(entry, "activeForm", where) };
}

function render(todos: readonly Todo[]): string {
  if (todos.length === 0) return "✨ Todo list cleared - all tasks complete!";
  const done = todos.filter(({ status }) => status === "completed").length;
  const lines = todos.map(({ content, status, activeForm }, index) => {
    return `${index + 1}. ${SYMBOLS[status] ?? ""} ${status === "in_progress" ? activeForm : content}`;
  });
  return [`📋 Todo List: ${done}/${todos.length} completed`, "─".repeat(50), ...lines].join("\n");
}
