/** Runs: every response, the newest first, and what can be ended. Invariant: what runs is marked, and an end is asked for once. */
import { useState } from "preact/hooks";
import { ask, askJson, may } from "../api.ts";
import { useCell } from "../cell.ts";
import { count, doorWord, duration, exactly, folderName, money, shortId, when } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { plainText } from "../plain.ts";
import { goTo, Link, place } from "../router.tsx";
import { conversations, lookAgain } from "../shared.ts";
import { titleOf } from "../sidebar.tsx";
import { StatusMark } from "../status-mark.tsx";
import { cancelTurn } from "../turn.ts";
import { Empty, Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";
import { isEnded, type WireResponse } from "../wire.ts";

const FILTERS = ["all", "running", "waiting", "queued", "completed", "incomplete", "failed", "cancelled"];
const PAGE = 50;
/** That the server lists at once. */
const MOST = 100;

export function RunsView(_: { id: string; other: string }) {
  const { query } = useCell(place);
  const status = query.get("status") ?? "all";
  const [shownRows, setShown] = useState(PAGE);
  const filter = status === "all" ? "" : `&status=${encodeURIComponent(status)}`;
  const { data, problem } = useLoad(`${status} ${shownRows}`, () => readRuns(filter, shownRows));
  const stop = useAction(lookAgain);
  return (
    <View
      title="Runs"
      wide
      problem={problem}
      aside={
        <div class="row">
          <select
            aria-label="Status"
            value={status}
            onChange={(event) =>
              goTo(event.currentTarget.value === "all" ? "/runs" : `/runs?status=${event.currentTarget.value}`)
            }
          >
            {FILTERS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <button
            type="button"
            class="danger"
            disabled={stop.busy}
            onClick={() =>
              confirm("End everything that runs?") &&
              stop.run(() => ask("/v1/emergency-stop", { method: "POST", body: {} }))
            }
          >
            Stop everything
          </button>
        </div>
      }
    >
      <Problem text={stop.problem} />
      {data?.data.length === 0 && <Empty>{status === "all" ? "Nothing has run yet." : `Nothing is ${status}.`}</Empty>}
      <ul class="runs">
        {data?.data.map((response) => (
          <Run key={response.id} response={response} />
        ))}
      </ul>
      {data?.has_more && (
        <button type="button" onClick={() => setShown(shownRows + PAGE)}>
          Show more
        </button>
      )}
    </View>
  );
}

interface Listed {
  data: WireResponse[];
  has_more: boolean;
}

/** The newest so many, page by page. */
async function readRuns(filter: string, wanted: number): Promise<Listed> {
  const data: WireResponse[] = [];
  for (;;) {
    const limit = Math.min(MOST, wanted - data.length);
    const last = data.at(-1);
    const after = last ? `&after=${last.id}` : "";
    const page = await askJson<Listed>(`/v1/responses?limit=${limit}${after}${filter}`);
    data.push(...page.data);
    if (!page.has_more || data.length >= wanted || page.data.length === 0) return { data, has_more: page.has_more };
  }
}

function Run({ response }: { response: WireResponse }) {
  const list = useCell(conversations);
  const status = response.rotunda_status ?? response.status;
  const action = useAction(lookAgain);
  const conversation = list.find(({ id }) => id === response.conversation?.id);
  const excerpt = response.prompt_excerpt ? plainText(response.prompt_excerpt) : "";
  const title = excerpt || (conversation ? titleOf(conversation) : `Response ${shortId(response.id)}`);
  const { usage, completed_at: ended, created_at: begun } = response;
  return (
    <li class="run">
      <StatusMark status={status} />
      <Link to={`/r/${response.id}`} class="run-title">
        {shown(title)}
      </Link>
      <span class="run-facts">
        <span>
          {response.profile !== undefined && `${shown(response.profile)} · `}
          {shown(response.model)}
        </span>
        <span>{doorWord(response.door ?? "")}</span>
        {response.workspace !== undefined && (
          <span title={shown(response.workspace)}>{shown(folderName(response.workspace))}</span>
        )}
        {usage && <span>{count(usage.total_tokens)} tokens</span>}
        {usage?.cost !== undefined && <span>{money(usage.cost)}</span>}
        {ended !== null && ended > begun && <span>{duration((ended - begun) * 1_000)}</span>}
        <time title={exactly(begun * 1_000)}>{when(begun * 1_000)}</time>
        <Link to={`/tree/${response.id}`}>tree</Link>
      </span>
      {!isEnded(status) && may("responses:write") && (
        <button
          type="button"
          class="danger"
          disabled={action.busy}
          aria-label={`Stop ${shown(title)}`}
          onClick={() => action.run(() => cancelTurn(response.id))}
        >
          Stop
        </button>
      )}
      <Problem text={action.problem} />
    </li>
  );
}
