/** Search over everything said. Invariant: what is searched stands in the address; older answers are asked for by a cursor. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { askJson, words } from "../api.ts";
import { useCell } from "../cell.ts";
import { exactly, when } from "../format.ts";
import { goTo, Link, place } from "../router.tsx";
import { Empty, View } from "../view.tsx";
import { shown } from "../visible.tsx";
import { moment } from "../wire.ts";

interface Hit {
  response_id: string;
  conversation_id: string | null;
  item_id: string;
  role: string;
  excerpt: string;
  created_at: number | string;
}

interface Answer {
  data: Hit[];
  next: string | null;
}

export function SearchView(_: { id: string; other: string }) {
  const { query } = useCell(place);
  const wanted = query.get("q") ?? "";
  const all = query.get("all") === "true";
  const { hits, next, busy, problem, more } = useSearch(wanted, all);
  const field = useRef<HTMLInputElement>(null);
  // Whoever came by a key types on at once.
  useLayoutEffect(() => field.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = String(form.get("q") ?? "").trim();
    goTo(text === "" ? "/search" : `/search?q=${encodeURIComponent(text)}${form.get("all") ? "&all=true" : ""}`, {
      replace: true,
    });
  };
  return (
    <View title="Search" problem={problem}>
      <form class="search" role="search" onSubmit={submit}>
        <label class="visually-hidden" for="search">
          Words that were said
        </label>
        <input
          id="search"
          name="q"
          type="search"
          ref={field}
          defaultValue={wanted}
          placeholder="Words that were said"
          autocomplete="off"
        />
        <label class="check">
          <input type="checkbox" name="all" defaultChecked={all} /> tool output and reasoning too
        </label>
        <button type="submit" class="primary">
          Search
        </button>
      </form>
      <p class="visually-hidden" role="status">
        {wanted !== "" && !busy ? `${hits.length} found` : ""}
      </p>
      <ul class="hits">
        {hits.map((hit) => (
          <li key={`${hit.response_id} ${hit.item_id}`}>
            <Link to={`/r/${hit.response_id}`}>
              <span class="hit-facts">
                {hit.role === "user" ? "You" : shown(hit.role)} ·{" "}
                <time title={exactly(moment(hit.created_at))}>{when(moment(hit.created_at))}</time>
              </span>
              <Marked text={shown(hit.excerpt)} words={wanted} />
            </Link>
          </li>
        ))}
      </ul>
      {busy && <p class="quiet">Searching …</p>}
      {!busy && wanted !== "" && hits.length === 0 && next === null && problem === "" && (
        <Empty>Nobody said that.</Empty>
      )}
      {!busy && next !== null && (
        <button type="button" onClick={more}>
          Older
        </button>
      )}
    </View>
  );
}

function useSearch(wanted: string, all: boolean) {
  const [state, setState] = useState<{ hits: Hit[]; next: string | null; busy: boolean; problem: string }>({
    hits: [],
    next: null,
    busy: false,
    problem: "",
  });
  const number = useRef(0);
  const look = (before: string | null, known: Hit[]) => {
    const mine = ++number.current;
    setState({ hits: known, next: null, busy: true, problem: "" });
    const cursor = before === null ? "" : `&before=${encodeURIComponent(before)}`;
    askJson<Answer>(`/v1/search?q=${encodeURIComponent(wanted)}&limit=20${all ? "&all=true" : ""}${cursor}`).then(
      ({ data, next }) =>
        mine === number.current && setState({ hits: [...known, ...data], next, busy: false, problem: "" }),
      (error: unknown) =>
        mine === number.current && setState({ hits: known, next: null, busy: false, problem: words(error) }),
    );
  };
  useEffect(() => {
    if (wanted !== "") return look(null, []);
    // What was asked for before does not come back.
    number.current++;
    setState({ hits: [], next: null, busy: false, problem: "" });
  }, [wanted, all]);
  return { ...state, more: () => look(state.next, state.hits) };
}

function Marked({ text, words: wanted }: { text: string; words: string }) {
  const parts = wanted
    .split(/\s+/)
    .filter((word) => word !== "")
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (parts.length === 0) return text;
  const pieces = text.split(new RegExp(`(${parts.join("|")})`, "gi"));
  return (
    <span class="hit-text">
      {pieces.map((piece, index) => (index % 2 === 1 ? <mark key={index}>{piece}</mark> : piece))}
    </span>
  );
}
