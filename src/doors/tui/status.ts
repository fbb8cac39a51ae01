/**
 * The lines around the editor: what runs, the plan, what is queued; at the bottom who answers and what was used.
 *
 * Invariant: every line fits its width; names that come from configuration or a server were cleaned.
 */
import { truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import type { Canvas } from "./block.ts";
import { clean, cleanLine } from "./clean.ts";
import type { Session } from "./session.ts";
import { costText, countText, durationText, spinner } from "./style.ts";

/** What the run does and what keys mean now; empty where nothing runs. */
export function activityLines(session: Session, { width, look, now }: Canvas): string[] {
  const { running } = session;
  const lines: string[] = [];
  // A question says by itself that the run waits.
  if (running && session.asks.open.length === 0) {
    const time = durationText(Math.max(0, now - running.began));
    const hint = "enter steers · alt+enter queues · esc stops";
    const doing = look.dim(`· ${time} · ${hint}`);
    lines.push(truncateToWidth(`${look.cyan(spinner(now))} ${clean(running.reader.doing)} ${doing}`, width, "…"));
  }
  for (const text of session.steering)
    lines.push(truncateToWidth(`  ${look.cyan("↪")} ${look.dim(`steers: ${cleanLine(text, width)}`)}`, width, "…"));
  for (const [index, { text }] of session.queue.entries()) {
    if (index < 4)
      lines.push(truncateToWidth(`  ${look.blue("+")} ${look.dim(`next: ${cleanLine(text, width)}`)}`, width, "…"));
  }
  if (session.queue.length > 4) lines.push(look.dim(`  … ${session.queue.length - 4} more queued`));
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
  const { usage, app } = session;
  const window = app.config.models.find(({ id }) => id === session.model)?.contextWindow;
  const used = usage.context === 0 ? "" : contextText(usage.context, window);
  const where = session.head === undefined ? "new conversation" : `at ${session.head.slice(-8)}`;
  const tokens = usage.tokens > 0 ? `${countText(usage.tokens)} tokens` : "";
  const model = look.bold(clean(session.model === "" ? "…" : session.model));
  const parts = [model, clean(session.profile), tokens, costText(usage.cost), used, where];
  const right = hint === "" ? "" : `${hint} `;
  const joined = () => ` ${parts.filter((text) => text !== "").join(look.dim(" · "))}`;
  for (const index of DISPENSABLE) {
    if (visibleWidth(joined()) + visibleWidth(right) < width) break;
    parts[index] = "";
  }
  const left = joined();
  const room = width - visibleWidth(left) - visibleWidth(right);
  const line = room > 0 ? `${left}${" ".repeat(room)}${look.dim(right)}` : left;
  return truncateToWidth(line, width, "…");
}

function contextText(context: number, window: number | undefined): string {
  if (window === undefined) return `context ${countText(context)}`;
  const share = (context / window) * 100;
  return `context ${share < 1 ? "<1" : Math.round(share)}% of ${countText(window)}`;
}
