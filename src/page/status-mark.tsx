/** How a run stands: a mark and a word. Invariant: never the colour alone. */
import { statusWord } from "./format.ts";
import type { RunStatus } from "./wire.ts";

const SIGNS: Record<RunStatus, string> = {
  queued: "◌",
  in_progress: "●",
  waiting: "◆",
  completed: "✓",
  incomplete: "◑",
  failed: "✕",
  cancelled: "⊘",
};

export function StatusMark({ status, bare = false }: { status: RunStatus; bare?: boolean }) {
  return (
    <span class={`status status-${status}`}>
      <span aria-hidden="true">{SIGNS[status] ?? "?"}</span>
      <span class={bare ? "visually-hidden" : undefined}> {statusWord(status)}</span>
    </span>
  );
}
