/** Sub-agents below the call that started them. Invariant: each is a turn like any other, and is followed only while it is open. */
import { useContext } from "preact/hooks";
import { Cell, useCell } from "./cell.ts";
import { ItemsContext, PathContext } from "./contexts.ts";
import { count, money } from "./format.ts";
import { Link } from "./router.tsx";
import { StatusMark } from "./status-mark.tsx";
import { turnOf } from "./turn.ts";
import { shown } from "./visible.tsx";
import type { TreeNode } from "./wire.ts";

const opened = new Cell<ReadonlySet<string>>(new Set());

export function SubAgents({ call }: { call: string }) {
  const { called } = useCell(useContext(PathContext));
  const found = called.get(call);
  if (!found) return null;
  return (
    <>
      {found.map((node) => (
        <SubAgent key={node.id} node={node} />
      ))}
    </>
  );
}

function SubAgent({ node }: { node: TreeNode }) {
  const open = useCell(opened).has(node.id);
  const Items = useContext(ItemsContext);
  const turn = turnOf(node.id);
  const head = useCell(turn.head);
  const toggle = (event: Event) => {
    const now = (event.target as HTMLDetailsElement).open;
    const next = new Set(opened.value);
    if (now) {
      next.add(node.id);
      turn.load().catch(() => undefined);
    } else next.delete(node.id);
    opened.set(next);
  };
  const tokens = head?.usage?.total_tokens ?? node.usage?.total_tokens ?? 0;
  return (
    <details class="sub-agent" open={open} onToggle={toggle}>
      <summary>
        <StatusMark status={head?.status ?? node.status} bare />
        <span class="call-name">{shown(node.profile)}</span>
        <span class="call-gist">{shown(node.prompt ?? "")}</span>
        <span class="call-state">
          {tokens > 0 && `${count(tokens)} tokens`}
          {node.cost ? ` ${money(node.cost)}` : ""}
        </span>
      </summary>
      {open && (
        <div class="call-body">
          <Items turn={turn} />
          <Link to={`/r/${node.id}`}>Open it by itself</Link>
        </div>
      )}
    </details>
  );
}
