/**
 * The tree as a drawn graph: every response, its branches and sub-agents, what they cost and how they stand.
 *
 * Invariant: the drawing is decoration; the rows beside it are a tree in the sense of a screen reader, walked with the
 * arrow keys, and exactly one of them is in the order of the tab key.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { askJson } from "../api.ts";
import { useCell } from "../cell.ts";
import { count, doorWord, exactly, folderName, money, shortId, when } from "../format.ts";
import { useLoad } from "../load.ts";
import { memo } from "../memo.ts";
import { plainText } from "../plain.ts";
import { goTo, Link } from "../router.tsx";
import { conversations } from "../shared.ts";
import { titleOf } from "../sidebar.tsx";
import { StatusMark } from "../status-mark.tsx";
import { Empty, View } from "../view.tsx";
import { shown } from "../visible.tsx";
import { moment, type TreeNode, type WireTree } from "../wire.ts";
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

/** Responses that are shown at first, and as many as the server tells at once. */
const FIRST = 500;
const MOST = 2_000;

function Tree({ id }: { id: string }) {
  const query = id.startsWith("conv") ? "conversation" : "response";
  const [limit, setLimit] = useState(FIRST);
  const { data, problem } = useLoad(`${id} ${limit}`, () =>
    askJson<WireTree>(`/v1/tree?${query}=${encodeURIComponent(id)}&limit=${limit}`),
  );
  const [marked, setMarked] = useState<string | undefined>(undefined);
  const layout = useMemo(() => data && layOut(data.nodes, data.current), [data]);
  if (!data || !layout) return <View title="Tree" problem={problem} children={null} />;
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
      {data.nodes.length === 0 && <Empty>Nothing was said here yet.</Empty>}
      {data.truncated && (
        <p class="hint">
          It is larger than this: {data.nodes.length} responses are shown, those around{" "}
          {data.current === null ? "the end" : <code>{shortId(data.current)}</code>}.{" "}
          {limit < MOST && (
            <button type="button" class="link-button" onClick={() => setLimit(MOST)}>
              Show up to {MOST.toLocaleString()}
            </button>
          )}{" "}
          For the rest, choose a response and take <em>Tree around it</em>, or search.
        </p>
      )}
      <Graph layout={layout} start={data.current ?? id} truncated={data.truncated} marked={marked} onMark={setMarked} />
    </View>
  );
}

interface GraphProperties {
  /** There is more of the tree than is shown. */
  truncated: boolean;
  layout: Layout;
  start: string;
  marked: string | undefined;
  onMark: (id: string | undefined) => void;
}

function Graph({ layout, start, truncated, marked, onMark }: GraphProperties) {
  const { rows } = layout;
  const step = stepOf(layout);
  const box = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(start);
  const at = Math.max(
    0,
    rows.findIndex(({ node }) => node.id === chosen),
  );
  const place = rows[at];
  useEffect(() => {
    const row = box.current?.querySelector<HTMLElement>("[aria-selected=true]");
    row?.scrollIntoView({ block: "nearest" });
    // The keys work at once; whoever types elsewhere goes on typing.
    if (!document.activeElement?.closest("input,textarea,select,dialog")) row?.focus({ preventScroll: true });
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
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  };
  return (
    <>
      <div class="tree">
        <svg
          class="tree-lines"
          width={LEFT * 2 + (layout.lanes - 1) * step}
          height={rows.length * ROW}
          aria-hidden="true"
          focusable="false"
        >
          <Lines layout={layout} step={step} />
          {place && <Dot place={place} step={step} chosen />}
        </svg>
        <div role="tree" aria-label="Responses" class="tree-rows" ref={box} tabIndex={-1} onKeyDown={press}>
          {rows.map((row) => (
            <Row
              key={row.node.id}
              row={row}
              chosen={row.row === at}
              marked={row.node.id === marked}
              onChoose={setChosen}
            />
          ))}
        </div>
      </div>
      {place && <Actions place={place} truncated={truncated} marked={marked} onCompare={compare} />}
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
  onChoose: (id: string) => void;
}

function askedIn({ kind, prompt }: TreeNode): string {
  if (kind === "compaction") return "Summing up what was said";
  return shown(plainText(prompt ?? "")) || "(nothing was asked)";
}

/** What came of it; of what failed, why. */
function answerIn({ status, error, answer }: TreeNode): string {
  if (status === "failed" && error) return shown(error.message);
  return shown(plainText(answer ?? ""));
}

/** Of thousands of rows, a step of the keys draws two anew. */
const Row = memo(({ row, chosen, marked, onChoose }: RowProperties) => {
  const choose = () => onChoose(row.node.id);
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
      onClick={choose}
      onFocus={choose}
      onDblClick={() => open(row)}
    >
      <span class="tree-prompt">
        <StatusMark status={node.status} bare /> {called && <span class="tree-called">sub-agent </span>}
        {askedIn(node)}
      </span>
      <span class={node.status === "failed" ? "tree-answer problem" : "tree-answer"}>{answerIn(node)}</span>
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
});

/** Pixels: of a row, as the style sheet has it, and between lanes. */
const ROW = 64;
const LANE = 20;
const LEFT = 14;
const MIDDLE = 20;
const BEND = 16;

const y = (row: number) => row * ROW + MIDDLE;

/** Pixels between lanes: very many of them share a third of the screen, and leave the rest to the words. */
function stepOf({ lanes }: Layout): number {
  return Math.min(LANE, Math.max(1, Math.min(400, innerWidth * 0.3) / Math.max(1, lanes - 1)));
}

function Dot({ place, step, chosen }: { place: Placed; step: number; chosen: boolean }) {
  const { node, row, lane, called } = place;
  return (
    <circle
      cx={LEFT + lane * step}
      cy={y(row)}
      r={chosen ? 7 : called ? 4 : 5.5}
      class={`dot dot-${node.status}${chosen ? " dot-chosen" : ""}`}
    />
  );
}

const Lines = memo(({ layout, step }: { layout: Layout; step: number }) => {
  const { rows } = layout;
  const x = (lane: number) => LEFT + lane * step;
  return (
    <g>
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
      {rows.map((place) => (
        <Dot key={place.node.id} place={place} step={step} chosen={false} />
      ))}
    </g>
  );
});

interface ActionsProperties {
  truncated: boolean;
  place: Placed;
  marked: string | undefined;
  onCompare: (id: string) => void;
}

function Actions({ place, truncated, marked, onCompare }: ActionsProperties) {
  const { node } = place;
  const before = place.parent < 0 ? node.previous_response_id : null;
  const comparing = marked !== undefined && marked !== node.id;
  return (
    <section class="tree-actions" aria-label="The chosen response">
      <span class="tree-id">
        <StatusMark status={node.status} /> <code>{shortId(node.id)}</code>{" "}
        <span class="quiet" title={shown(node.workspace ?? "")}>
          through {doorWord(node.door)}
          {node.workspace !== undefined && `, in ${shown(folderName(node.workspace))}`}
        </span>
      </span>
      <div class="row">
        <button type="button" class="primary" onClick={() => open(place)}>
          Open, and go on from here
        </button>
        <button type="button" aria-pressed={marked === node.id} onClick={() => onCompare(node.id)}>
          {comparing ? `Compare with ${shortId(marked)}` : marked === node.id ? "Marked: choose another" : "Compare …"}
        </button>
        {truncated && <Link to={`/tree/${before ?? node.id}`}>{before ? "What came before" : "Tree around it"}</Link>}
        {node.conversation_id && <Link to={`/c/${node.conversation_id}`}>Its conversation</Link>}
      </div>
    </section>
  );
}
