/** The todo list of the work in hand, above the place where one writes. Invariant: the last one that was written on the path. */

import { parseArguments } from "./arguments.tsx";
import { useCell } from "./cell.ts";
import type { Chat } from "./chat-state.ts";
import { Todos, todosOf } from "./todos.tsx";
import type { Turn } from "./turn.ts";
import { shown } from "./visible.tsx";

export function Plan({ turn }: { chat: Chat; turn: Turn }) {
  const items = useCell(turn.items);
  const call = items.findLast(({ value }) => value.name === "TodoWrite");
  return call ? <PlanOf cell={call} /> : null;
}

function PlanOf({ cell }: { cell: Turn["items"]["value"][number] }) {
  const item = useCell(cell);
  const todos = todosOf(parseArguments(item.arguments ?? ""));
  if (!todos || todos.length === 0) return null;
  const done = todos.filter(({ status }) => status === "completed").length;
  const doing = todos.find(({ status }) => status === "in_progress");
  return (
    <details class="plan">
      <summary>
        <span>
          Plan {done}/{todos.length}
        </span>
        <progress value={done} max={todos.length} aria-label="Steps done" />
        <span class="quiet">{shown(doing?.content ?? "")}</span>
      </summary>
      <Todos todos={todos} />
    </details>
  );
}
