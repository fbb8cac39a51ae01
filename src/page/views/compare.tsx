/** Two responses side by side. Invariant: both are read as they are; the difference is made of their answers' texts alone. */
import { useEffect } from "preact/hooks";
import { useCell } from "../cell.ts";
import { ItemsContext } from "../contexts.ts";
import { DiffView, lineDiff } from "../diff.tsx";
import { count, duration, money, shortId } from "../format.ts";
import { Asked, textOf } from "../item-view.tsx";
import { Link } from "../router.tsx";
import { StatusMark } from "../status-mark.tsx";
import { type Turn, turnOf } from "../turn.ts";
import { TurnItems } from "../turn-view.tsx";
import { View } from "../view.tsx";
import { shown } from "../visible.tsx";

export function CompareView({ id, other }: { id: string; other: string }) {
  const left = turnOf(id);
  const right = turnOf(other);
  const before = useCell(left.items);
  const after = useCell(right.items);
  const said = (items: Turn["items"]["value"]) =>
    items
      .flatMap(({ value }) => (value.type === "message" && value.role === "assistant" ? [textOf(value)] : []))
      .join("\n\n");
  return (
    <ItemsContext.Provider value={TurnItems}>
      <View title="Compare" wide aside={<Link to={`/tree/${id}`}>Back to the tree</Link>}>
        <div class="compare">
          <Side turn={left} />
          <Side turn={right} />
        </div>
        {before.length > 0 && after.length > 0 && (
          <details class="panel">
            <summary>What differs between the answers</summary>
            <DiffView lines={lineDiff(said(before), said(after))} />
          </details>
        )}
      </View>
    </ItemsContext.Provider>
  );
}

function Side({ turn }: { turn: Turn }) {
  const head = useCell(turn.head);
  const input = useCell(turn.input);
  const problem = useCell(turn.problem);
  useEffect(() => turn.watch(), [turn]);
  return (
    <section class="side" aria-label={`Response ${shortId(turn.id)}`}>
      <h2>
        <Link to={`/r/${turn.id}`}>
          <code>{shortId(turn.id)}</code>
        </Link>{" "}
        {head && <StatusMark status={head.status} />}
      </h2>
      {head && (
        <p class="turn-foot">
          <span>{shown(head.model)}</span>
          {head.usage && <span>{count(head.usage.total_tokens)} tokens</span>}
          {head.usage?.cost !== undefined && <span>{money(head.usage.cost)}</span>}
          {head.completedAt !== null && head.completedAt > head.createdAt && (
            <span>{duration((head.completedAt - head.createdAt) * 1_000)}</span>
          )}
        </p>
      )}
      {input.map((item, index) => (item.type === "message" ? <Asked key={index} item={item} /> : null))}
      {problem === "" ? null : <p class="problem">{problem}</p>}
      <TurnItems turn={turn} />
    </section>
  );
}
