/**
 * Where a person writes.
 *
 * Invariant: what is being written belongs to the browser's own field, so that typing costs the same however long the
 * chat is; it is kept for each chat until it was sent, a reload included.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { RequestError, whenItAnswers, words } from "./api.ts";
import { type Attachment, attach } from "./attachments.ts";
import { Chooser } from "./chooser.tsx";
import { bytes } from "./format.ts";
import { Icon } from "./icons.tsx";
import { shown } from "./visible.tsx";
import type { Part } from "./wire.ts";

export interface Written {
  text: string;
  attachments: readonly Part[];
}

export interface Given {
  text: string;
  attachments?: readonly Attachment[];
  /** It stands before what is being written; else it stands in its place. */
  before?: true;
}

interface Properties {
  /** Whose draft it is. */
  name: string;
  running: boolean;
  disabled: boolean;
  /** A text to begin with, which a person asked for. */
  given: Given | undefined;
  onSend: (written: Written, queue: boolean) => Promise<void>;
  onStop: () => void;
}

const DRAFT = "rotunda.draft.";

function draft(name: string, text?: string): string {
  try {
    if (text === undefined) return sessionStorage.getItem(DRAFT + name) ?? "";
    if (text === "") sessionStorage.removeItem(DRAFT + name);
    else if (text.length < 200_000) sessionStorage.setItem(DRAFT + name, text);
  } catch {
    // Full, or forbidden: the draft lives as long as the page.
  }
  return "";
}

/** Files of drafts, while the page is open. */
const kept = new Map<string, readonly Attachment[]>();

/** What is to be found in the composer of a chat when that is opened. */
export function keepDraft(name: string, { text, attachments }: { text: string; attachments: readonly Attachment[] }) {
  draft(name, text);
  keepFiles(name, attachments);
}

function keepFiles(name: string, attachments: readonly Attachment[]): void {
  if (attachments.length > 0) kept.set(name, attachments);
  else kept.delete(name);
}

interface Writing {
  attachments: readonly Attachment[];
  problem: string;
  busy: boolean;
  add: (files: Iterable<File>) => void;
  remove: (key: number) => void;
  send: (queue: boolean) => void;
}

function useWriting(
  { name, disabled, given, onSend }: Properties,
  field: { current: HTMLTextAreaElement | null },
): Writing {
  const [attachments, setAttachments] = useState<readonly Attachment[]>(kept.get(name) ?? []);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const whose = useRef(name);
  useEffect(() => {
    const area = field.current;
    if (!area) return;
    area.value = draft(whose.current);
    if (matchMedia("(hover: hover)").matches) area.focus({ preventScroll: true });
    // Whatever takes the chat away (another view, the end of the session), the draft is kept.
    return () => {
      if (area.value !== "") draft(whose.current, area.value);
    };
  }, [field]);
  useEffect(() => {
    if (!field.current || !given) return;
    const written = given.before ? field.current.value : "";
    field.current.value = [given.text, written].filter((text) => text !== "").join("\n\n");
    draft(whose.current, field.current.value);
    const { attachments: more = [] } = given;
    if (more.length > 0) setAttachments((before) => [...more, ...before]);
    field.current.focus({ preventScroll: true });
  }, [given, field]);
  useEffect(() => {
    // The chat has got its name: what is being written goes along.
    if (whose.current !== name) {
      draft(whose.current, "");
      kept.delete(whose.current);
      whose.current = name;
    }
    keepFiles(name, attachments);
  }, [name, attachments]);
  const add = (files: Iterable<File>) => {
    for (const file of files) {
      attach(file).then(
        (attachment) => setAttachments((before) => [...before, attachment]),
        (error: unknown) => setProblem(words(error)),
      );
    }
  };
  const send = (queue: boolean) => {
    const area = field.current;
    const text = area?.value.trim() ?? "";
    if (!area || busy || disabled || (text === "" && attachments.length === 0)) return;
    setBusy(true);
    setProblem("");
    const written = { text, attachments: attachments.map(({ part }) => part) };
    area.value = "";
    onSend(written, queue)
      .then(() => {
        // What came meanwhile is the next message.
        draft(whose.current, area.value);
        const without = (now: readonly Attachment[]) => now.filter((one) => !attachments.includes(one));
        setAttachments(without);
        // Where the chat has been left meanwhile, nobody draws it any more.
        keepFiles(whose.current, without(kept.get(whose.current) ?? []));
      })
      .catch((error: unknown) => {
        // Nothing that was written is lost.
        area.value = [written.text, area.value].filter((text) => text !== "").join("\n\n");
        draft(whose.current, area.value);
        setProblem(words(error));
        if (error instanceof RequestError && error.status === 0) whenItAnswers(() => setProblem(""));
      })
      .finally(() => setBusy(false));
  };
  const remove = (key: number) => setAttachments((before) => before.filter((one) => one.key !== key));
  return { attachments, problem, busy, add, remove, send };
}

export function Composer(properties: Properties) {
  const { name, running, onStop } = properties;
  const field = useRef<HTMLTextAreaElement>(null);
  const writing = useWriting(properties, field);
  const { attachments, problem, add, send } = writing;
  const [over, setOver] = useState(false);
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send(event.altKey);
    } else if (event.key === "Escape" && running) onStop();
  };
  const paste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    add(files);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    add([...(event.dataTransfer?.files ?? [])]);
  };
  return (
    <form
      class={over ? "composer over" : "composer"}
      aria-label="Write"
      onSubmit={(event) => {
        event.preventDefault();
        send(false);
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      {problem !== "" && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <AttachmentList attachments={attachments} onRemove={writing.remove} />
      <label class="visually-hidden" for="composer">
        Message
      </label>
      <textarea
        id="composer"
        ref={field}
        rows={1}
        placeholder={running ? "Say something while it runs …" : "Ask, or describe a task"}
        onKeyDown={press}
        onPaste={paste}
        onBlur={() => draft(name, field.current?.value ?? "")}
      />
      <Buttons {...properties} writing={writing} />
    </form>
  );
}

function Buttons({ name, running, disabled, onStop, writing }: Properties & { writing: Writing }) {
  const chosen = useRef<HTMLInputElement>(null);
  return (
    <div class="composer-row">
      <input
        ref={chosen}
        type="file"
        multiple
        hidden
        aria-label="Files"
        onChange={(event) => {
          writing.add([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
      <button
        type="button"
        class="icon-button"
        aria-label="Attach pictures or text files"
        onClick={() => chosen.current?.click()}
      >
        <Icon name="attach" />
      </button>
      <Chooser name={name} />
      <span class="stretch" />
      {running && (
        <>
          <button
            type="button"
            class="quiet-button"
            onClick={() => writing.send(true)}
            title="Alt+Enter: when it has ended"
          >
            Queue
          </button>
          <button type="button" class="stop-button" onClick={onStop} title="Escape">
            <Icon name="stop" /> Stop
          </button>
        </>
      )}
      <button
        type="submit"
        class="send-button"
        disabled={writing.busy || disabled}
        aria-label={running ? "Steer" : "Send"}
        title={running ? "Steer it (Enter)" : "Send (Enter)"}
      >
        <Icon name="send" />
      </button>
    </div>
  );
}

function AttachmentList({
  attachments,
  onRemove,
}: {
  attachments: readonly Attachment[];
  onRemove: (key: number) => void;
}) {
  if (attachments.length === 0) return null;
  return (
    <ul class="attachments" aria-label="Attachments">
      {attachments.map(({ key, name, size, part }) => (
        <li key={key}>
          {part.image_url !== undefined && <img src={part.image_url} alt="" />}
          <span>{shown(name)}</span>
          <span class="quiet">{bytes(size)}</span>
          <button type="button" class="icon-button" aria-label={`Remove ${shown(name)}`} onClick={() => onRemove(key)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}
