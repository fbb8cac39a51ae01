/**
 * Where the nodes of a tree stand: one row each, branches in lanes to the right.
 *
 * Invariant: rows are in the order of a walk from the root (a parent before its children, sub-agents and side branches
 * before what goes on in the same lane), so lines never cross, and a list that is read row by row is the tree.
 */
import { moment, type TreeNode } from "../wire.ts";

export interface Placed {
  node: TreeNode;
  row: number;
  lane: number;
  /** Steps from the root, from 1. */
  level: number;
  /** Row of what it goes on from; -1: the root. */
  parent: number;
  /** A sub-agent's run hangs below the call, not behind the answer. */
  called: boolean;
  /** It stands on the path that the tree was asked for. */
  current: boolean;
}

export interface Layout {
  rows: Placed[];
  /** How many lanes there are. */
  lanes: number;
}

interface Visit {
  node: TreeNode;
  lane: number;
  level: number;
  parent: number;
}

export function layOut(nodes: readonly TreeNode[], current: string | null): Layout {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const children = new Map<string, TreeNode[]>();
  const roots: TreeNode[] = [];
  for (const node of [...nodes].sort((a, b) => moment(a.created_at) - moment(b.created_at))) {
    const above = aboveOf(node);
    if (above === null || !byId.has(above)) roots.push(node);
    else children.set(above, [...(children.get(above) ?? []), node]);
  }
  const path = pathOf(current, byId);
  const rows: Placed[] = [];
  // Without recursion: a chain may be thousands of turns long.
  const waiting: Visit[] = roots.map((node) => ({ node, lane: 0, level: 1, parent: -1 })).reverse();
  for (let visit = waiting.pop(); visit; visit = waiting.pop()) {
    const { node, lane, level, parent } = visit;
    const row = rows.length;
    rows.push({ node, row, lane, level, parent, called: node.caller !== null, current: path.has(node.id) });
    const below = children.get(node.id) ?? [];
    const going = goingOn(below, path);
    const side = below.filter((one) => one !== going);
    // The last one that is put in is visited first.
    if (going) waiting.push({ node: going, lane, level: level + 1, parent: row });
    for (const one of side.reverse()) waiting.push({ node: one, lane: lane + 1, level: level + 1, parent: row });
  }
  return { rows, lanes: rows.reduce((most, { lane }) => Math.max(most, lane + 1), 1) };
}

function aboveOf(node: TreeNode): string | null {
  return node.previous_response_id ?? node.caller?.response_id ?? null;
}

function pathOf(current: string | null, byId: ReadonlyMap<string, TreeNode>): Set<string> {
  const path = new Set<string>();
  for (let id = current; id !== null && !path.has(id); ) {
    path.add(id);
    const node = byId.get(id);
    id = node ? aboveOf(node) : null;
  }
  return path;
}

/** What keeps the lane: the path that was asked for, else the newest branch. */
function goingOn(below: readonly TreeNode[], path: ReadonlySet<string>): TreeNode | undefined {
  const answers = below.filter(({ caller }) => caller === null);
  return answers.find(({ id }) => path.has(id)) ?? answers.at(-1);
}
