/** The plan of the work in hand. Invariant: the last list that was written is the list; states are words, not colours alone. */
import { Visible } from "./visible.tsx";

export interface Todo {
  content: string;
  status: string;
}

export function todosOf(fields: Record<string, unknown> | undefined): Todo[] | undefined {
  if (!Array.isArray(fields?.todos)) return undefined;
  return fields.todos.flatMap((raw: unknown) => {
    const { content, status, activeForm } = (raw ?? {}) as Record<string, unknown>;
    if (typeof content !== "string") return [];
    const doing = status === "in_progress" && typeof activeForm === "string" && activeForm !== "";
    return [{ content: doing ? String(activeForm) : content, status: typeof status === "string" ? status : "pending" }];
  });
}

const SIGNS: Record<string, string> = { pending: "○", in_progress: "●", completed: "✓" };
const WORDS: Record<string, string> = { pending: "to do", in_progress: "in progress", completed: "done" };

export function Todos({ todos }: { todos: readonly Todo[] }) {
  return (
    <ol class="todos">
      {todos.map(({ content, status }, index) => (
        <li key={index} class={`todo-${status}`}>
          <span aria-hidden="true">{SIGNS[status] ?? "○"}</span>
          <span class="visually-hidden">{WORDS[status] ?? status}: </span>
          <span>
            <Visible text={content} />
          </span>
        </li>
      ))}
    </ol>
  );
}
