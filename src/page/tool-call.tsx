/** A tool call: one line, that opens to what it was given and what came of it. Invariant: its output is text, whatever it holds. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Arguments, gist, parseArguments } from "./arguments.tsx";
import { Cell, useCell } from "./cell.ts";
import { DiffView, parseUnified } from "./diff.tsx";
import { duration } from "./format.ts";
import { SubAgents } from "./sub-agents.tsx";
import { Todos, todosOf } from "./todos.tsx";
import { shown, Visible } from "./visible.tsx";
import type { WireItem } from "./wire.ts";

const SIGNS: Record<string, string> = { completed: "✓", failed: "✕", incomplete: "◑", calling: "●", in_progress: "○" };
const WORDS: Record<string, string> = {
  completed: "done",
  failed: "failed",
  incomplete: "not finished",
  calling: "running",
  in_progress: "asked for",
};
/** Characters of an output that are drawn until a person wants more. */
const FIRST = 12_000;

/** Milliseconds from which on it is said how long a call took. */
const WORTH_TELLING = 50;

export function errorText({ error }: WireItem): string {
  if (typeof error === "string") return error;
  return error?.content?.map(({ text }) => text ?? "").join("\n") ?? "";
}

/** Seconds since a call began, while it runs. */
function useSeconds(running: boolean): number {
  const [seconds, setSeconds] = useState(0);
  const begun = useRef(0);
  useEffect(() => {
    if (!running) return;
    begun.current ||= Date.now();
    const timer = setInterval(() => setSeconds(Math.round((Date.now() - begun.current) / 1_000)), 1_000);
    return () => clearInterval(timer);
  }, [running]);
  return running ? seconds : 0;
}

function Output({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  const lines = parseUnified(text);
  if (lines) return <DiffView lines={lines} />;
  const cut = !whole && text.length > FIRST;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre class="output" tabIndex={0} role="group" aria-label="Output">
        <Visible text={cut ? text.slice(0, FIRST) : text} />
      </pre>
      {cut && (
        <button type="button" class="link-button" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </>
  );
}

/** Which calls are open, by id: an item that is drawn anew stays as it was. */
const opened = new Cell<ReadonlySet<string>>(new Set());

export function ToolCall({ item }: { item: WireItem }) {
  const open = useCell(opened).has(item.id);
  const { name = "", status = "completed" } = item;
  const written = item.arguments || item.input || "";
  const running = status === "calling";
  const seconds = useSeconds(running);
  const label = item.server_label && item.server_label !== "rotunda" ? `${item.server_label}: ${name}` : name;
  const error = errorText(item);
  const todos = name === "TodoWrite" ? todosOf(parseArguments(written)) : undefined;
  const toggle = (event: Event) => {
    const now = (event.target as HTMLDetailsElement).open;
    const next = new Set(opened.value);
    if (now) next.add(item.id);
    else next.delete(item.id);
    opened.set(next);
  };
  return (
    <>
      <details class={`call call-${status}`} open={open} onToggle={toggle}>
        <summary>
          <span class="call-sign" aria-hidden="true">
            {SIGNS[status] ?? "·"}
          </span>
          <span class="call-name">{shown(label)}</span>
          <span class="call-gist">{shown(gist(written))}</span>
          <span class="call-state">
            {status === "completed" ? <span class="visually-hidden">done</span> : WORDS[status]}
            {seconds > 1 && ` ${duration(seconds * 1_000)}`}
            {!running && item.duration !== undefined && item.duration >= WORTH_TELLING && ` ${duration(item.duration)}`}
          </span>
        </summary>
        {open && (
          <div class="call-body">
            {todos ? <Todos todos={todos} /> : <Arguments name={name} written={written} />}
            {error !== "" && (
              <pre class="output output-error">
                <Visible text={error} />
              </pre>
            )}
            {item.output && !todos && <Output text={item.output} />}
          </div>
        )}
      </details>
      <SubAgents call={item.id} />
    </>
  );
}
