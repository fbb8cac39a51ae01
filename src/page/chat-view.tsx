/** A chat: its turns, what it costs, and where one writes. Invariant: it stays at the end while one reads the end, and nowhere else moves by itself. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "./announce.tsx";
import { RequestError, words } from "./api.ts";
import { writtenOf } from "./attachments.ts";
import { useCell } from "./cell.ts";
import { ChatHead } from "./chat-head.tsx";
import { Chat, PAGE } from "./chat-state.ts";
import { choose, chosenFor } from "./chooser.tsx";
import { Composer, type Given, keepDraft, type Written } from "./composer.tsx";
import { ItemsContext, PathContext } from "./contexts.ts";
import { doorWord } from "./format.ts";
import { Asked } from "./item-view.tsx";
import { Plan } from "./plan.tsx";
import { goTo } from "./router.tsx";
import { changes } from "./shared.ts";
import { type Turn, turnOf } from "./turn.ts";
import { TurnItems, TurnView } from "./turn-view.tsx";
import { Problem } from "./view.tsx";
import { Welcome } from "./welcome.tsx";

interface Properties {
  conversation: string | null;
  response: string | null;
  /** The chat has taken this address by itself. */
  onAdopt: (address: string) => void;
}

export function ChatView({ conversation, response, onAdopt }: Properties) {
  const chat = useMemo(() => new Chat(conversation, response), []);
  const path = useCell(chat.path);
  const loaded = useCell(chat.loaded);
  const problem = useCell(chat.problem);
  const [given, setGiven] = useState<Given | undefined>(undefined);
  const name = chat.conversation ?? chat.response ?? "new";
  const last = path.ids.length > 0 ? turnOf(path.ids.at(-1) ?? "") : undefined;
  useLook(chat);
  useEffect(() => () => chat.leave(), [chat]);

  const send = async (written: Written, queue: boolean): Promise<void> => {
    setGiven(undefined);
    const running = last !== undefined && last.head.value !== undefined && !last.ended;
    if (running && !queue) {
      try {
        return await chat.steer(written);
      } catch (error) {
        // It has ended meanwhile: what was said begins the next turn.
        if (!(error instanceof RequestError && error.status === 409)) throw error;
      }
    }
    const { profile, model } = chosenFor(name);
    const sending = { ...written, ...(model !== "" && { model }), ...(profile !== "" && { profile }) };
    await chat.send(sending);
    if (chat.conversation !== null && chat.conversation !== conversation) choose(chat.conversation, { profile, model });
    else if (chat.response !== null) choose(chat.response, { profile, model });
    const address = chat.conversation !== null ? `/c/${chat.conversation}` : `/r/${chat.response}`;
    // Whoever has gone elsewhere meanwhile stays there.
    if (chat.left || address === location.pathname) return;
    onAdopt(chat.conversation !== null ? `${chat.conversation}/` : `/${chat.response}`);
    goTo(address, { replace: chat.conversation !== null });
  };
  const branch = (turn: Turn) => goTo(`/r/${turn.id}`);
  const edit = (turn: Turn) => {
    const previous = turn.head.value?.previous;
    keepDraft(previous ?? "new", writtenOf(turn.input.value));
    goTo(previous ? `/r/${previous}` : "/");
  };
  const [refused, setRefused] = useState("");
  /** A conversation stands before an answer that failed: the same is sent there once more, pictures included. */
  const again = (turn: Turn) => {
    if (chat.conversation === null || turn !== last) return edit(turn);
    const attachments = turn.input.value.flatMap(({ type, role, content = [] }) =>
      type === "message" && role === "user" ? content : [],
    );
    setRefused("");
    send({ text: "", attachments }, true).catch((error: unknown) => setRefused(words(error)));
  };
  return (
    <PathContext.Provider value={chat.path}>
      <ItemsContext.Provider value={TurnItems}>
        <div class="chat">
          {(path.ids.length > 0 || problem !== "") && <ChatHead chat={chat} />}
          <Turns chat={chat} onBranch={branch} onEdit={edit} onAgain={again} />
          <Problem text={refused} />
          {problem !== "" && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
          {loaded && path.ids.length === 0 && problem === "" && <Welcome onPick={(text) => setGiven({ text })} />}
          <Below chat={chat} name={name} last={last} given={given} send={send} onHeld={setGiven} />
        </div>
      </ItemsContext.Provider>
    </PathContext.Provider>
  );
}

/** Loads the path, and looks again when something has changed anywhere. */
function useLook(chat: Chat): void {
  const changed = useCell(changes);
  const first = useRef(true);
  useEffect(() => {
    const looked = first.current ? chat.load() : chat.look();
    first.current = false;
    looked.catch(() => undefined);
  }, [chat, changed]);
}

interface TurnsProperties {
  chat: Chat;
  onBranch: (turn: Turn) => void;
  onEdit: (turn: Turn) => void;
  onAgain: (turn: Turn) => void;
}

function Turns({ chat, onBranch, onEdit, onAgain }: TurnsProperties) {
  const path = useCell(chat.path);
  const shown = useCell(chat.shown);
  const sending = useCell(chat.sending);
  const box = useRef<HTMLDivElement>(null);
  const actions = useRef({ onBranch, onEdit, onAgain });
  actions.current = { onBranch, onEdit, onAgain };
  const stable = useMemo(
    () => ({
      onBranch: (turn: Turn) => actions.current.onBranch(turn),
      onEdit: (turn: Turn) => actions.current.onEdit(turn),
      onAgain: (turn: Turn) => actions.current.onAgain(turn),
    }),
    [],
  );
  useStickToEnd(box, path.ids.at(-1) ?? "");
  const hidden = Math.max(0, path.ids.length - shown);
  return (
    <div class="turns" ref={box} tabIndex={-1}>
      <div class="turns-inner">
        {hidden > 0 && (
          <button type="button" class="earlier" onClick={() => chat.shown.set(shown + PAGE)}>
            Show earlier ({hidden})
          </button>
        )}
        {path.ids.slice(hidden).map((id) => (
          <TurnView
            key={id}
            turn={turnOf(id)}
            branches={path.children.get(id) ?? 0}
            profile={path.nodes.get(id)?.profile ?? ""}
            model={path.nodes.get(id)?.model ?? ""}
            {...stable}
          />
        ))}
        {sending && (
          <article class="turn" aria-busy="true" aria-label="Being sent">
            <Asked
              item={{
                type: "message",
                id: "",
                role: "user",
                content: [...sending.attachments, { type: "input_text", text: sending.text }],
              }}
            />
          </article>
        )}
      </div>
    </div>
  );
}

/** Pixels from the end within which a reader is taken to read the end. */
const NEAR = 80;

function useStickToEnd(box: { current: HTMLDivElement | null }, last: string): void {
  const near = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    const inner = element?.firstElementChild;
    if (!element || !inner) return;
    const noted = () => {
      near.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    };
    const grown = new ResizeObserver(() => {
      if (near.current) element.scrollTop = element.scrollHeight;
    });
    element.addEventListener("scroll", noted, { passive: true });
    grown.observe(inner);
    grown.observe(element);
    return () => {
      element.removeEventListener("scroll", noted);
      grown.disconnect();
    };
  }, [box]);
  // What one has just said is seen, wherever one was.
  useLayoutEffect(() => {
    near.current = true;
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [last]);
}

interface BelowProperties {
  chat: Chat;
  name: string;
  last: Turn | undefined;
  given: Given | undefined;
  send: (written: Written, queue: boolean) => Promise<void>;
  /** What waited when the answer was stopped. */
  onHeld: (given: Given) => void;
}

function Below({ chat, name, last, given, send, onHeld }: BelowProperties) {
  const head = useCell(last?.head ?? chat.noHead);
  const running = last !== undefined && head !== undefined && !last.ended;
  const was = useRef(running);
  const [problem, setProblem] = useState("");
  /** What another door had queued, and begins where this one has stopped. */
  const [next, setNext] = useState<Turn | undefined>(undefined);
  useCell(next?.head ?? chat.noHead);
  useEffect(() => {
    if (was.current && !running && head)
      announce(head.status === "completed" ? "The answer is complete." : `It ended: ${head.status}.`);
    was.current = running;
  }, [running, head]);
  const stop = () => {
    setProblem("");
    chat
      .stop((held) => onHeld({ ...writtenOf(held), before: true }))
      .then(setNext)
      .catch((error: unknown) => setProblem(words(error)));
  };
  return (
    <div class="below">
      <Plan chat={chat} />
      {next && !next.ended && (
        <p class="hint" role="status">
          What was queued through {doorWord(chat.doorOf(next))} runs now; Stop ends it.
        </p>
      )}
      {problem !== "" && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <Composer name={name} running={running} disabled={false} given={given} onSend={send} onStop={stop} />
    </div>
  );
}
