/** What stands above a chat: its name, its cost, how full its context is, and the way to its tree. Invariant: sums over the path that is shown. */
import { useEffect, useState } from "preact/hooks";
import { ask, askJson, words } from "./api.ts";
import { useCell } from "./cell.ts";
import type { Chat } from "./chat-state.ts";
import { count, folderName, money, shortId } from "./format.ts";
import { Icon } from "./icons.tsx";
import { goTo, Link } from "./router.tsx";
import { conversations, lookAgain, models } from "./shared.ts";
import { titleOf } from "./sidebar.tsx";
import { turnOf } from "./turn.ts";
import { shown } from "./visible.tsx";

function useContextTokens(chat: Chat): number | undefined {
  const path = useCell(chat.path);
  const last = path.ids.at(-1);
  const head = useCell(last === undefined ? chat.noHead : turnOf(last).head);
  const ended = head?.completedAt !== null && head !== undefined;
  const [tokens, setTokens] = useState<number | undefined>(undefined);
  useEffect(() => {
    if (last === undefined || !ended) return;
    let isLast = true;
    const body = { previous_response_id: last };
    askJson<{ input_tokens: number }>("/v1/responses/input_tokens", { body })
      .then(({ input_tokens }) => isLast && setTokens(input_tokens))
      .catch(() => undefined);
    return () => {
      isLast = false;
    };
  }, [last, ended]);
  return tokens;
}

export function ChatHead({ chat }: { chat: Chat }) {
  const path = useCell(chat.path);
  const listed = useCell(conversations).find(({ id }) => id === chat.conversation);
  const context = useContextTokens(chat);
  const known = useCell(models);
  const nodes = path.ids.flatMap((id) => path.nodes.get(id) ?? []);
  const tokens = nodes.reduce((sum, node) => sum + (node.usage?.total_tokens ?? 0), 0);
  const cost = nodes.reduce((sum, node) => sum + (node.cost ?? 0), 0);
  const window = known.find(({ id }) => id === nodes.at(-1)?.model)?.window;
  const last = path.ids.at(-1);
  const workspace = nodes.at(-1)?.workspace;
  return (
    <header class="chat-head">
      <Title chat={chat} title={listed ? titleOf(listed) : last ? `Response ${shortId(last)}` : ""} />
      <ul class="figures">
        {tokens > 0 && (
          <li title="Tokens of this path">
            <span class="figure">{count(tokens)}</span> tokens
          </li>
        )}
        {cost > 0 && (
          <li title="Cost of this path">
            <span class="figure">{money(cost)}</span>
          </li>
        )}
        {context !== undefined && (
          <li title="What the model would be told next, estimated">
            <span class="figure">{count(context)}</span>
            {window !== undefined ? `/${count(window)}` : ""} context
            {window !== undefined && (
              <meter min={0} max={window} high={window * 0.8} value={context} aria-label="Context in use" />
            )}
          </li>
        )}
      </ul>
      {workspace !== undefined && (
        <span class="head-folder" title={`Working directory: ${shown(workspace)}`}>
          <span class="visually-hidden">Working directory: </span>
          {shown(folderName(workspace))}
        </span>
      )}
      {last !== undefined && (
        <Link to={`/tree/${last}`} class="head-link">
          <Icon name="tree" /> Tree
        </Link>
      )}
    </header>
  );
}

function Title({ chat, title }: { chat: Chat; title: string }) {
  const [editing, setEditing] = useState(false);
  const [problem, setProblem] = useState("");
  const id = chat.conversation;
  const save = (event: Event) => {
    event.preventDefault();
    const wanted = new FormData(event.target as HTMLFormElement).get("title");
    ask(`/v1/conversations/${id}`, { body: { title: typeof wanted === "string" ? wanted : "" } })
      .then(() => {
        setEditing(false);
        lookAgain();
      })
      .catch((error: unknown) => setProblem(words(error)));
  };
  const remove = () => {
    if (!confirm("Remove this conversation from the list? Its responses stay in the tree.")) return;
    ask(`/v1/conversations/${id}`, { method: "DELETE" })
      .then(() => {
        lookAgain();
        goTo("/");
      })
      .catch((error: unknown) => setProblem(words(error)));
  };
  if (!editing) {
    return (
      <h1 class="chat-title">
        {id === null ? (
          title
        ) : (
          <button type="button" class="title-button" title="Rename" onClick={() => setEditing(true)}>
            {title}
          </button>
        )}
      </h1>
    );
  }
  return (
    <form class="row title-form" onSubmit={save}>
      <label class="visually-hidden" for="title">
        Name of the conversation
      </label>
      <input
        id="title"
        name="title"
        defaultValue={title}
        maxLength={200}
        autocomplete="off"
        ref={(input) => input?.focus()}
      />
      <button type="submit">Save</button>
      <button type="button" onClick={() => setEditing(false)}>
        Cancel
      </button>
      <button type="button" class="danger" onClick={remove}>
        Remove
      </button>
      {problem !== "" && <span class="problem">{problem}</span>}
    </form>
  );
}
