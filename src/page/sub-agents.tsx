/** Sub-agents below the call that started them. Invariant: each is a turn like any other, and is followed only while it is open; one that asks a person opens by itself. */
import { useContext, useEffect } from "preact/hooks";
import { Cell, useCell } from "./cell.ts";
import { ItemsContext, PathContext } from "./contexts.ts";
import { count, money } from "./format.ts";
import { Link } from "./router.tsx";
import { approvals } from "./shared.ts";
import { StatusMark } from "./status-mark.tsx";
import { turnOf } from "./turn.ts";
import { shown } from "./visible.tsx";
import type { TreeNode } from "./wire.ts";

const opened = new Cell<ReadonlySet<string>>(new Set());

export function SubAgents({ call }: { call: string }) {
  const { called, nodes } = useCell(useContext(PathContext));
  const pending = useCell(approvals);
  const found = called.get(call);
  if (!found) return null;
  // Those that wait for a person, and those above them.
  const waiting = new Set<string>();
  for (const { responseId } of pending) {
    for (let id: string | undefined = responseId; id && !waiting.has(id); id = nodes.get(id)?.caller?.response_id)
      waiting.add(id);
  }
  return (
    <>
      {found.map((node) => (
        <SubAgent key={node.id} node={node} waits={waiting.has(node.id)} />
      ))}
    </>
  );
}

function show(id: string, isOpen: boolean): void {
  const next = new Set(opened.value);
  if (isOpen) next.add(id);
  else next.delete(id);
  opened.set(next);
}

function SubAgent({ node, waits }: { node: TreeNode; waits: boolean }) {
  const open = useCell(opened).has(node.id);
  const Items = useContext(ItemsContext);
  const turn = turnOf(node.id);
  const known = useCell(turn.head);
  useEffect(() => (open ? turn.watch() : undefined), [open, turn]);
  useEffect(() => {
    if (waits) show(node.id, true);
  }, [waits, node.id]);
  const toggle = (event: Event) => show(node.id, (event.target as HTMLDetailsElement).open);
  // What is not followed any more is known by the tree.
  const head = open || turn.ended ? known : undefined;
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
