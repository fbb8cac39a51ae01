/**
 * The tree as a drawn graph: every response, its branches and sub-agents, what they cost and how they stand.
 *
 * Invariant: the drawing is decoration; the rows beside it are a tree in the sense of a screen reader, walked with the
 * arrow keys, and exactly one of them is in the order of the tab key.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { askJson } from "../api.ts";
import { useCell } from "../cell.ts";
import { count, exactly, money, shortId, when } from "../format.ts";
import { useLoad } from "../load.ts";
import { goTo, Link } from "../router.tsx";
import { conversations } from "../shared.ts";
import { titleOf } from "../sidebar.tsx";
import { StatusMark } from "../status-mark.tsx";
import { Empty, View } from "../view.tsx";
import { shown } from "../visible.tsx";
import { moment, type WireTree } from "../wire.ts";
import { type Layout, layOut, type Placed } from "./tree-layout.ts";

export function TreeView({ id }: { id: string; other: string }) {
  return id === "" ? <Choice /> : <Tree key={id} id={id} />;
}

function Choice() {
  const list = useCell(conversations);
  return (
    <View title="Tree">
      <p class="hint">Every answer is a node. Whose tree do you want to see?</p>
      <ul class="list">
        {list.map((conversation) => (
          <li key={conversation.id}>
            <Link to={`/tree/${conversation.id}`}>{titleOf(conversation)}</Link>
            <span class="quiet">{when(conversation.updatedAt)}</span>
          </li>
        ))}
      </ul>
      {list.length === 0 && <Empty>Nothing was said yet.</Empty>}
    </View>
  );
}

function Tree({ id }: { id: string }) {
  const query = id.startsWith("conv") ? "conversation" : "response";
  const { data, problem } = useLoad(id, () => askJson<WireTree>(`/v1/tree?${query}=${encodeURIComponent(id)}`));
  const [marked, setMarked] = useState<string | undefined>(undefined);
  if (!data) return <View title="Tree" problem={problem} children={null} />;
  const layout = layOut(data.nodes, data.current);
  const cost = data.nodes.reduce((sum, node) => sum + (node.cost ?? 0), 0);
  const tokens = data.nodes.reduce((sum, node) => sum + (node.usage?.total_tokens ?? 0), 0);
  return (
    <View
      title="Tree"
      wide
      problem={problem}
      aside={
        <ul class="figures">
          <li>
            <span class="figure">{data.nodes.length}</span> responses
          </li>
          <li>
            <span class="figure">{count(tokens)}</span> tokens
          </li>
          {cost > 0 && (
            <li>
              <span class="figure">{money(cost)}</span>
            </li>
          )}
        </ul>
      }
    >
      {data.truncated && (
        <p class="hint">It is larger than this: the newest {data.nodes.length} responses are shown.</p>
      )}
      <Graph layout={layout} start={data.current ?? id} marked={marked} onMark={setMarked} />
    </View>
  );
}

interface GraphProperties {
  layout: Layout;
  start: string;
  marked: string | undefined;
  onMark: (id: string | undefined) => void;
}

function Graph({ layout, start, marked, onMark }: GraphProperties) {
  const { rows } = layout;
  const box = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(start);
  const at = Math.max(
    0,
    rows.findIndex(({ node }) => node.id === chosen),
  );
  const place = rows[at];
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, []);
  const walk = (to: number) => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (!next) return;
    setChosen(next.node.id);
    box.current?.querySelectorAll<HTMLElement>("[role=treeitem]")[next.row]?.focus();
  };
  const compare = (id: string) => {
    if (marked !== undefined && marked !== id) goTo(`/compare/${marked}/${id}`);
    else onMark(marked === id ? undefined : id);
  };
  const press = (event: KeyboardEvent) => {
    if (!place || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Record<string, () => void> = {
      ArrowDown: () => walk(at + 1),
      ArrowUp: () => walk(at - 1),
      ArrowLeft: () => place.parent >= 0 && walk(place.parent),
      ArrowRight: () => {
        const child = rows.find(({ parent }) => parent === at);
        if (child) walk(child.row);
      },
      Home: () => walk(0),
      End: () => walk(rows.length - 1),
      Enter: () => open(place),
      c: () => compare(place.node.id),
      b: () => goTo(`/r/${place.node.id}`),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  };
  return (
    <>
      <div class="tree">
        <Lines layout={layout} chosen={at} />
        <div role="tree" aria-label="Responses" class="tree-rows" ref={box} tabIndex={-1} onKeyDown={press}>
          {rows.map((row) => (
            <Row
              key={row.node.id}
              row={row}
              chosen={row.row === at}
              marked={row.node.id === marked}
              onChoose={() => setChosen(row.node.id)}
            />
          ))}
        </div>
      </div>
      {place && <Actions place={place} marked={marked} onCompare={compare} />}
    </>
  );
}

function open({ node }: Placed): void {
  goTo(`/r/${node.id}`);
}

interface RowProperties {
  row: Placed;
  chosen: boolean;
  marked: boolean;
  onChoose: () => void;
}

function Row({ row, chosen, marked, onChoose }: RowProperties) {
  const { node, level, current, called } = row;
  const names = ["tree-row", current ? "on-path" : "", marked ? "marked" : ""].join(" ");
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree hears the keys of its rows
    <div
      role="treeitem"
      class={names}
      tabIndex={chosen ? 0 : -1}
      aria-level={level}
      aria-selected={chosen}
      data-response={node.id}
      onClick={onChoose}
      onFocus={onChoose}
      onDblClick={() => open(row)}
    >
      <span class="tree-prompt">
        <StatusMark status={node.status} bare /> {called && <span class="tree-called">sub-agent </span>}
        {shown(node.prompt ?? "") || "(nothing was asked)"}
      </span>
      <span class="tree-answer">{shown(node.answer ?? "")}</span>
      <span class="tree-facts">
        <span>
          {shown(node.profile)} · {shown(node.model)}
        </span>
        {node.usage && <span>{count(node.usage.total_tokens)} tokens</span>}
        {node.cost ? <span>{money(node.cost)}</span> : null}
        <time title={exactly(moment(node.created_at))}>{when(moment(node.created_at))}</time>
      </span>
    </div>
  );
}

/** Pixels: of a row, as the style sheet has it, and between lanes. */
const ROW = 64;
const LANE = 20;
const LEFT = 14;
const MIDDLE = 20;
const BEND = 16;

function Lines({ layout, chosen }: { layout: Layout; chosen: number }) {
  const { rows, lanes } = layout;
  const width = LEFT * 2 + (lanes - 1) * LANE;
  const x = (lane: number) => LEFT + lane * LANE;
  const y = (row: number) => row * ROW + MIDDLE;
  return (
    <svg class="tree-lines" width={width} height={rows.length * ROW} aria-hidden="true" focusable="false">
      {rows.map(({ node, row, lane, parent, called, current }) => {
        const above = rows[parent];
        if (!above) return null;
        const [fromX, toX, toY] = [x(above.lane), x(lane), y(row)];
        const path =
          fromX === toX
            ? `M${fromX} ${y(parent)}V${toY}`
            : `M${fromX} ${y(parent)}V${toY - BEND}Q${fromX} ${toY} ${toX} ${toY}`;
        return (
          <path key={node.id} d={path} class={`${current ? "line-current" : "line"}${called ? " line-called" : ""}`} />
        );
      })}
      {rows.map(({ node, row, lane, called }) => (
        <circle
          key={node.id}
          cx={x(lane)}
          cy={y(row)}
          r={row === chosen ? 7 : called ? 4 : 5.5}
          class={`dot dot-${node.status}${row === chosen ? " dot-chosen" : ""}`}
        />
      ))}
    </svg>
  );
}

interface ActionsProperties {
  place: Placed;
  marked: string | undefined;
  onCompare: (id: string) => void;
}

function Actions({ place, marked, onCompare }: ActionsProperties) {
  const { node } = place;
  const comparing = marked !== undefined && marked !== node.id;
  return (
    <section class="tree-actions" aria-label="The chosen response">
      <span class="tree-id">
        <StatusMark status={node.status} /> <code>{shortId(node.id)}</code>{" "}
        <span class="quiet">through {shown(node.door)}</span>
      </span>
      <div class="row">
        <button type="button" class="primary" onClick={() => open(place)}>
          Open
        </button>
        <button type="button" onClick={() => goTo(`/r/${node.id}`)}>
          Branch from here
        </button>
        <button type="button" aria-pressed={marked === node.id} onClick={() => onCompare(node.id)}>
          {comparing ? `Compare with ${shortId(marked)}` : marked === node.id ? "Marked: choose another" : "Compare …"}
        </button>
        {node.conversation_id && <Link to={`/c/${node.conversation_id}`}>Its conversation</Link>}
      </div>
    </section>
  );
}
