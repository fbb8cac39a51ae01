/** The todo list of the work in hand, above the place where one writes. Invariant: the last one that was written on the path; done, it stands as long as its turn is the last. */

import { parseArguments } from "./arguments.tsx";
import { useCell } from "./cell.ts";
import type { Chat } from "./chat-state.ts";
import { Todos, todosOf } from "./todos.tsx";
import { type Turn, turnOf } from "./turn.ts";
import { shown } from "./visible.tsx";

/** Turns back to which it is looked for. */
const MOST = 20;

export function Plan({ chat }: { chat: Chat }) {
  const { ids } = useCell(chat.path);
  return <PlanAt ids={ids} back={1} />;
}

/** Of the turn so far back, or of one before it. */
function PlanAt({ ids, back }: { ids: readonly string[]; back: number }) {
  const id = back > MOST ? undefined : ids.at(-back);
  return id === undefined ? null : <PlanIn turn={turnOf(id)} ids={ids} back={back} />;
}

function PlanIn({ turn, ids, back }: { turn: Turn; ids: readonly string[]; back: number }) {
  const items = useCell(turn.items);
  const call = items.findLast(({ value }) => value.name === "TodoWrite");
  return call ? <PlanOf key={call.value.id} cell={call} isLast={back === 1} /> : <PlanAt ids={ids} back={back + 1} />;
}

function PlanOf({ cell, isLast }: { cell: Turn["items"]["value"][number]; isLast: boolean }) {
  const item = useCell(cell);
  const todos = todosOf(parseArguments(item.arguments ?? ""));
  if (!todos || todos.length === 0) return null;
  const done = todos.filter(({ status }) => status === "completed").length;
  if (done === todos.length && !isLast) return null;
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
