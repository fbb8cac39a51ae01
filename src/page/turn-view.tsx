/** One turn: what was asked, what came of it, and what can be done from there. Invariant: a turn that does not change is not drawn anew. */
import { useContext, useEffect, useState } from "preact/hooks";
import { ask, may, words } from "./api.ts";
import { useCell } from "./cell.ts";
import { PathContext } from "./contexts.ts";
import { count, doorWord, duration, exactly, money, OWN_DOOR, shortId, when } from "./format.ts";
import { Icon } from "./icons.tsx";
import { Asked, ItemView, textOf } from "./item-view.tsx";
import { memo } from "./memo.ts";
import { Question } from "./question.tsx";
import { Link } from "./router.tsx";
import { approvals, elicitations } from "./shared.ts";
import { StatusMark } from "./status-mark.tsx";
import type { Turn, TurnHead } from "./turn.ts";
import { shown } from "./visible.tsx";
import { outermost } from "./wire.ts";

export function TurnItems({ turn }: { turn: Turn }) {
  const items = useCell(turn.items);
  const problem = useCell(turn.problem);
  return (
    <>
      {items.map((cell) => (
        <ItemView key={cell.value.id} cell={cell} turn={turn} />
      ))}
      {problem !== "" && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </>
  );
}

const WHY: Record<string, string> = {
  max_turns: "the limit of model calls was reached",
  max_time: "the limit of time was reached",
  max_tokens: "the limit of tokens was reached",
  max_calls: "the limit of tool calls was reached",
  max_output_tokens: "the model's longest answer was reached",
  repeated_calls: "the model repeated itself",
  content_filter: "a filter stopped it",
  interrupted: "it was interrupted",
  stream_cut: "the model's stream was cut",
  output_limit: "the answer was too large",
  empty_response: "the model said nothing",
};

function Ending({ turn, head, onAgain }: { turn: Turn; head: TurnHead; onAgain: (turn: Turn) => void }) {
  const [problem, setProblem] = useState("");
  const resume = () => {
    ask(`/v1/responses/${turn.id}/resume`, { method: "POST" }).catch((error: unknown) => setProblem(words(error)));
  };
  if (head.status === "failed") {
    return (
      <p class="ending problem" role="alert">
        {shown(head.error?.message ?? "It failed.")}{" "}
        <button type="button" class="link-button" onClick={() => onAgain(turn)}>
          Ask again
        </button>
      </p>
    );
  }
  if (head.status === "cancelled") return <p class="ending quiet">Stopped.</p>;
  if (head.status !== "incomplete") return null;
  return (
    <p class="ending">
      Not finished: {WHY[head.incomplete ?? ""] ?? head.incomplete}.{" "}
      {head.incomplete === "interrupted" && may("responses:write") && (
        <button type="button" class="link-button" onClick={resume}>
          Go on
        </button>
      )}
      {problem !== "" && <span class="problem">{problem}</span>}
    </p>
  );
}

function Working({ turn, head }: { turn: Turn; head: TurnHead }) {
  const lost = useCell(turn.lost);
  const { nodes } = useCell(useContext(PathContext));
  // Those of its sub-agents too.
  const isHere = (responseId: string) => outermost(responseId, nodes) === turn.id;
  const waits = useCell(approvals).some(({ responseId }) => isHere(responseId));
  const asked = useCell(elicitations).filter(({ responseIds = [] }) => responseIds.some(isHere));
  const items = useCell(turn.items);
  if (lost) return <p class="working">The connection is lost; it is looked for …</p>;
  if (waits) return null;
  if (asked.length > 0) return asked.map((question) => <Question key={question.id} question={question} />);
  if (head.status === "waiting" && head.error) return <Waits error={head.error} />;
  if (head.status === "queued" && items.length === 0) {
    const { door = OWN_DOOR } = nodes.get(turn.id) ?? {};
    return <p class="working">In the queue{door !== OWN_DOOR && `, through ${doorWord(door)}`} …</p>;
  }
  return (
    <p class="working">
      <span class="pulse" aria-hidden="true" /> <span class="visually-hidden">Working</span>
    </p>
  );
}

/** What it waits for, and how it goes on. */
function Waits({ error }: { error: NonNullable<TurnHead["error"]> }) {
  const [, budget = ""] = /^the budget of (\S+) is used up/.exec(error.message) ?? [];
  const allowed = may("settings") || may("admin");
  return (
    <p class="ending">
      Waits: {shown(error.message)}.{" "}
      {error.code === "budget_reached" &&
        (allowed ? (
          <>
            <Link to={`/usage?budget=${encodeURIComponent(budget)}`}>Raise the budget</Link>, and it goes on by itself.
          </>
        ) : (
          "It goes on by itself when whoever runs the server raises it."
        ))}
    </p>
  );
}

export interface TurnActions {
  onBranch: (turn: Turn) => void;
  onEdit: (turn: Turn) => void;
  /** The same question once more. */
  onAgain: (turn: Turn) => void;
}

/** `branches`: how many go on from it. */
interface Properties extends TurnActions {
  turn: Turn;
  branches: number;
  profile: string;
  model: string;
}

function Foot({ turn, head, branches, profile, model, onBranch, onEdit }: Properties & { head: TurnHead }) {
  const { usage } = head;
  const cost = usage?.cost;
  const who = profile !== "" ? `${profile}${model !== "" ? ` · ${model}` : ""}` : head.model;
  return (
    <footer class="turn-foot">
      <StatusMark status={head.status} bare={head.status === "completed"} />
      <span title="Who answered">{shown(who)}</span>
      {usage && (
        <span title={`${usage.input_tokens.toLocaleString()} in, ${usage.output_tokens.toLocaleString()} out`}>
          {count(usage.total_tokens)} tokens
        </span>
      )}
      {cost !== undefined && <span>{money(cost)}</span>}
      {head.completedAt !== null && head.completedAt > head.createdAt && (
        <span title="From beginning to end">{duration((head.completedAt - head.createdAt) * 1_000)}</span>
      )}
      <time title={exactly(head.createdAt * 1_000)}>{when(head.createdAt * 1_000)}</time>
      <span class="turn-actions">
        {branches > 1 && (
          <Link to={`/tree/${turn.id}`} title="See them in the tree">
            {branches} branches
          </Link>
        )}
        <Copy turn={turn} />
        <button
          type="button"
          class="link-button"
          onClick={() => onEdit(turn)}
          aria-label={`Edit and ask again, response ${shortId(turn.id)}`}
        >
          Edit
        </button>
        <button
          type="button"
          class="link-button"
          onClick={() => onBranch(turn)}
          aria-label={`Branch from response ${shortId(turn.id)}`}
        >
          <Icon name="branch" /> Branch
        </button>
      </span>
    </footer>
  );
}

/** The whole answer, as the model wrote it. */
function Copy({ turn }: { turn: Turn }) {
  const items = useCell(turn.items);
  const [copied, setCopied] = useState(false);
  const text = items
    .flatMap(({ value }) => (value.type === "message" && value.role === "assistant" ? [textOf(value)] : []))
    .filter((part) => part !== "")
    .join("\n\n");
  if (text === "") return null;
  const copy = () => {
    navigator.clipboard?.writeText(text).then(
      () => {
        setCopied(true);
        setTimeout(() => setCopied(false), 1_500);
      },
      () => undefined,
    );
  };
  return (
    <button
      type="button"
      class="link-button"
      onClick={copy}
      aria-label={`Copy the answer, response ${shortId(turn.id)}`}
    >
      {copied ? "Copied" : "Copy"}
    </button>
  );
}

export const TurnView = memo((properties: Properties) => {
  const { turn } = properties;
  const head = useCell(turn.head);
  const input = useCell(turn.input);
  useEffect(() => turn.watch(), [turn]);
  const open = head && !turn.ended;
  return (
    <article
      class="turn"
      tabIndex={-1}
      aria-label={`Turn ${shortId(turn.id)}`}
      aria-busy={open === true}
      data-response={turn.id}
    >
      <h2 class="visually-hidden">Turn {shortId(turn.id)}</h2>
      {input.map((item, index) => (item.type === "message" ? <Asked key={index} item={item} /> : null))}
      <TurnItems turn={turn} />
      {head && <Ending turn={turn} head={head} onAgain={properties.onAgain} />}
      {open && <Working turn={turn} head={head} />}
      {head && turn.ended && <Foot {...properties} head={head} />}
    </article>
  );
});
