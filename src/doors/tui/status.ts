/**
 * The lines around the editor: what runs, the plan, what is queued; at the bottom who answers and what was used.
 *
 * Invariant: every line fits its width; names that come from configuration or a server were cleaned.
 */
import { homedir } from "node:os";
import { truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import { shortId } from "../../util/ids.ts";
import type { Canvas } from "./block.ts";
import { cleanLine } from "./clean.ts";
import { textOf } from "./reader.ts";
import type { Session } from "./session.ts";
import { costText, countText, durationText, spinner } from "./style.ts";

/** Lines of what is queued. */
const QUEUED = 4;

/** What the run does and what keys mean now; empty where nothing runs. */
export function activityLines(session: Session, { width, look, now }: Canvas): string[] {
  const { running } = session;
  const lines: string[] = [];
  // A question says by itself that the run waits.
  if (running && session.asks.open.length === 0) {
    const { reader, began, cancelled } = running;
    const waits = session.asks.waits && !cancelled;
    const what = waits ? "waits for an answer: /approve shows the question" : cleanLine(reader.doing);
    const time = durationText(Math.max(0, now - began));
    const hint = "enter steers · alt+enter queues · esc stops";
    const doing = look.dim(`· ${time} · ${hint}`);
    lines.push(truncateToWidth(`${look.cyan(spinner(now))} ${what} ${doing}`, width, "…"));
  }
  for (const text of [...(running?.reader.steering.map(textOf) ?? []), ...session.steering.map(({ text }) => text)])
    lines.push(truncateToWidth(`  ${look.cyan("↪")} ${look.dim(`steers: ${cleanLine(text, width)}`)}`, width, "…"));
  // What other doors have queued stands behind the turn already, and so before all that is queued here.
  const queued = [
    ...session.elsewhere.queued.map(({ door, text }) => [look.dim("+"), `queued at ${door}: ${text}`] as const),
    ...session.queue.map(({ text }) => [look.blue("+"), `next: ${cleanLine(text, width)}`] as const),
  ];
  for (const [mark, text] of queued.slice(0, QUEUED))
    lines.push(truncateToWidth(`  ${mark} ${look.dim(text)}`, width, "…"));
  if (queued.length > QUEUED) lines.push(look.dim(`  … ${queued.length - QUEUED} more queued`));
  return lines;
}

const TODOS = 6;

/** The steps of the plan around the one in hand; empty where there is none, or all are done. */
export function todoLines(session: Session, { width, look }: Canvas): string[] {
  const { todos } = session;
  if (todos.length === 0 || todos.every(({ status }) => status === "completed")) return [];
  const done = todos.filter(({ status }) => status === "completed").length;
  const active = Math.max(
    0,
    todos.findIndex(({ status }) => status !== "completed"),
  );
  const from = Math.max(0, Math.min(active - 1, todos.length - TODOS));
  const shown = todos.slice(from, from + TODOS).map(({ content, status }) => {
    const text = cleanLine(content, width - 6);
    if (status === "completed") return `  ${look.green("✓")} ${look.dim(text)}`;
    return status === "in_progress" ? `  ${look.cyan("▸")} ${look.bold(text)}` : `  ${look.dim("○")} ${text}`;
  });
  const more = todos.length > shown.length ? ` · ${todos.length - shown.length} not shown` : "";
  return [look.dim(`  plan ${done}/${todos.length}${more}`), ...shown].map((line) => truncateToWidth(line, width, "…"));
}

/** Parts of the status line that are left out where it is narrow, in this order: where, tokens, profile, cost. */
const DISPENSABLE = [5, 2, 1, 3];

/** Model, profile, tokens, cost, context, where; what does not fit is left out. */
export function statusLine(session: Session | undefined, canvas: Canvas, hint: string): string {
  const { width, look } = canvas;
  if (!session) return look.dim(" starting …");
  const { app } = session;
  const usage = session.usage.value;
  const window = app.config.models.find(({ id }) => id === session.model)?.contextWindow;
  const used = usage.context === 0 ? "" : contextText(usage.context, window);
  const at = session.head ?? session.running?.id;
  const { beginning } = session.elsewhere;
  const start = beginning === undefined ? "new conversation" : `in ${cleanLine(beginning, 40)}`;
  const where = at === undefined ? start : `at ${shortId(at)}`;
  const tokens = usage.tokens > 0 ? `${countText(usage.tokens)} tokens` : "";
  const model = look.bold(cleanLine(session.model === "" ? "…" : session.model));
  const parts = [model, cleanLine(session.profile), tokens, costText(usage.cost), used, where];
  const joined = () => ` ${parts.filter((text) => text !== "").join(look.dim(" · "))}`;
  const wanted = hint === "" ? 0 : visibleWidth(hint) + 2;
  for (const index of DISPENSABLE) {
    if (visibleWidth(joined()) + wanted <= width) break;
    parts[index] = "";
  }
  const left = joined();
  const space = Math.max(0, width - visibleWidth(left) - 3);
  const right = hint === "" ? directoryText(app.workspace, homedir(), space) : truncateToWidth(hint, space + 1, "…");
  if (right === "") return truncateToWidth(left, width, "…");
  const gap = " ".repeat(Math.max(1, width - visibleWidth(left) - visibleWidth(right) - 1));
  return truncateToWidth(`${left}${gap}${look.dim(right)} `, width, "…");
}

/** Columns that a directory takes at most. */
const DIRECTORY = 30;

/** A directory, its beginning left out where it is long; empty where there is no room for what tells it from others. */
export function directoryText(path: string, home: string, space: number): string {
  const inHome = path === home || path.startsWith(`${home}/`);
  const text = cleanLine(inHome ? `~${path.slice(home.length)}` : path, 1_000);
  const most = Math.min(DIRECTORY, space);
  if (visibleWidth(text) <= most) return text;
  const parts = text.split("/");
  for (let from = 1; from < parts.length; from++) {
    const end = `…/${parts.slice(from).join("/")}`;
    if (visibleWidth(end) <= most) return end;
  }
  return "";
}

function contextText(context: number, window: number | undefined): string {
  if (window === undefined) return `context ${countText(context)}`;
  const share = (context / window) * 100;
  return `context ${share < 1 ? "<1" : Math.round(share)}% of ${countText(window)}`;
}
