/** One item of a turn. Invariant: only the item that changes is drawn anew; what is not known is shown as its JSON. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { fileIn } from "../util/asked.ts";
import { announce } from "./announce.tsx";
import { ApprovalCard } from "./approval-card.tsx";
import { type Attachment, writtenOf } from "./attachments.ts";
import { type Cell, useCell } from "./cell.ts";
import { bytes } from "./format.ts";
import { Icon } from "./icons.tsx";
import { MarkdownView } from "./markdown-view.tsx";
import { memo } from "./memo.ts";
import { SentenceReader } from "./plain.ts";
import { approvals } from "./shared.ts";
import { ToolCall } from "./tool-call.tsx";
import type { Turn } from "./turn.ts";
import { shown, Visible } from "./visible.tsx";
import type { WireItem } from "./wire.ts";

export function textOf({ content = [] }: WireItem): string {
  return content.map((part) => part.text ?? part.refusal ?? "").join("\n\n");
}

function Said({ item }: { item: WireItem }) {
  const text = textOf(item);
  const growing = item.status === "in_progress";
  const reader = useRef<SentenceReader | undefined>(undefined);
  // What was there when it was first drawn is not told.
  reader.current ??= new SentenceReader(growing ? 0 : text.length);
  useEffect(() => announce(reader.current?.read(text, !growing) ?? ""), [text, growing]);
  // What a crash cut, and was said anew, keeps its place and has no text.
  if (text === "" && !growing) return null;
  return (
    <div class={growing ? "answer growing" : "answer"}>
      <MarkdownView text={text} growing={growing} />
    </div>
  );
}

function Reasoning({ item }: { item: WireItem }) {
  const parts = Array.isArray(item.summary) ? item.summary : [];
  const text = [...(item.content ?? []), ...parts].map((part) => part.text ?? "").join("\n\n");
  const growing = item.status === "in_progress";
  if (text === "" && !growing) return null;
  return (
    <details class="reasoning">
      <summary>
        {growing ? "Thinking" : "Thought"}
        <span class="quiet">
          {" "}
          {growing ? text.slice(-90).replace(/\s+/g, " ") : `${text.split(/\s+/).length} words`}
        </span>
      </summary>
      <div class="reasoning-text">
        <Visible text={text} />
      </div>
    </details>
  );
}

function Attached({ item }: { item: WireItem }) {
  const pictures = (item.content ?? []).filter(({ image_url }) => image_url?.startsWith("data:image/"));
  return pictures.map((part, index) => (
    <img key={index} class="attached" src={part.image_url} alt={`Attachment ${index + 1}`} />
  ));
}

/** What a person said. */
export function Asked({ item, steering = false }: { item: WireItem; steering?: boolean }) {
  const { text, attachments } = useMemo(() => writtenOf([item]), [item]);
  if (item.role === "system" || item.role === "developer") return null;
  // A program may bring along what a model has answered it.
  if (item.role === "assistant") return <Said item={item} />;
  return (
    <div class={steering ? "asked steering" : "asked"}>
      {steering && <span class="asked-note">said meanwhile</span>}
      <Attached item={item} />
      {text !== "" && (
        <div class="asked-text">{text.length > 6_000 ? <LongText text={text} /> : <Visible text={text} />}</div>
      )}
      {attachments.map((one) => one.part.image_url === undefined && <AttachedFile key={one.key} attachment={one} />)}
    </div>
  );
}

/** A file, folded. */
function AttachedFile({ attachment: { name, size, part } }: { attachment: Attachment }) {
  if (part.text === undefined) {
    return (
      <p class="attached-text">
        <Icon name="attach" /> {shown(name)} <span class="quiet">{bytes(size)}</span>
      </p>
    );
  }
  return (
    <details class="attached-text">
      <summary>
        <Icon name="attach" /> <span class="attached-name">{shown(name)}</span> <span class="quiet">{bytes(size)}</span>
      </summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre class="output" tabIndex={0} role="group" aria-label={shown(name)}>
        <Visible text={fileIn(part.text)?.text ?? ""} />
      </pre>
    </details>
  );
}

function LongText({ text }: { text: string }) {
  return (
    <details>
      <summary>
        <Visible text={`${text.slice(0, 300)} …`} />{" "}
        <span class="quiet">{text.length.toLocaleString()} characters</span>
      </summary>
      <Visible text={text} />
    </details>
  );
}

function Request({ item, turn }: { item: WireItem; turn: Turn }) {
  const pending = useCell(approvals).some(({ id }) => id === item.id);
  const items = useCell(turn.items);
  const label = shown(item.name ?? "");
  useEffect(() => {
    if (pending) announce(`Approval needed: ${label}`);
  }, [pending, label]);
  const answered = items.some(
    ({ value }) => value.type === "mcp_approval_response" && value.approval_request_id === item.id,
  );
  if (!pending || answered) return null;
  return (
    <ApprovalCard id={item.id} name={item.name ?? ""} written={item.arguments ?? ""} server={item.server_label ?? ""} />
  );
}

function Answered({ item, turn }: { item: WireItem; turn: Turn }) {
  const asking = turn.items.value.find(({ value }) => value.id === item.approval_request_id)?.value;
  return (
    <p class={item.approve ? "decided allowed" : "decided denied"}>
      {item.approve ? "✓ Allowed" : "✕ Refused"}
      {asking?.name !== undefined && (
        <>
          {" "}
          <code>{shown(asking.name)}</code>
        </>
      )}
      {item.reason ? <span class="quiet"> {shown(item.reason)}</span> : null}
    </p>
  );
}

export const ItemView = memo(({ cell, turn }: { cell: Cell<WireItem>; turn: Turn }) => {
  const item = useCell(cell);
  switch (item.type) {
    case "message":
      return item.role === "user" ? <Asked item={item} steering /> : <Said item={item} />;
    case "reasoning":
      return <Reasoning item={item} />;
    case "mcp_call":
    case "function_call":
    case "custom_tool_call":
      return <ToolCall item={item} />;
    case "mcp_approval_request":
      return <Request item={item} turn={turn} />;
    case "mcp_approval_response":
      return <Answered item={item} turn={turn} />;
    case "function_call_output":
    case "custom_tool_call_output":
      return (
        <details class="call">
          <summary>result of the client's tool</summary>
          <pre>
            <Visible text={item.output ?? ""} />
          </pre>
        </details>
      );
    case "compaction":
      return <p class="decided">What was said before was summed up here, to keep the context small.</p>;
    default:
      return (
        <details class="call">
          <summary>{shown(item.type)}</summary>
          <pre>
            <Visible text={JSON.stringify(item, null, 2)} />
          </pre>
        </details>
      );
  }
});
