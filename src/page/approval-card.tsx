/**
 * A question about one call, and its answers.
 *
 * Invariant: what is shown is the canonical form that the answer is bound to, whole; an answer is given once, and what
 * the server says of it is what counts.
 */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ask, askJson, may, words } from "./api.ts";
import { Arguments, type FileNow } from "./arguments.tsx";
import { useCell } from "./cell.ts";
import { approvals, lookAgain } from "./shared.ts";
import { shown, Visible } from "./visible.tsx";

type Scope = "once" | "session" | "always";

export function ApprovalCard({
  id,
  name,
  written,
  server,
}: {
  id: string;
  name: string;
  written: string;
  server: string;
}) {
  const pending = useCell(approvals).find((one) => one.id === id);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [refusing, setRefusing] = useState(false);
  const reasonId = useId();
  const form = useRef<HTMLFormElement>(null);
  // At once and not with the next drawing: a phone opens its keyboard only for what a tap itself has focused.
  const toggle = () => {
    setRefusing(!refusing);
    if (refusing || !form.current) return;
    form.current.hidden = false;
    form.current.querySelector("input")?.focus();
  };
  const answer = (approved: boolean, scope: Scope, reason?: string) => {
    setBusy(true);
    setProblem("");
    ask("/v1/tool-approval", { body: { approvalId: id, approved, scope, ...(reason && { reason }) } })
      .catch((error: unknown) => {
        setProblem(words(error));
        setBusy(false);
      })
      .finally(lookAgain);
  };
  const refuse = (event: Event) => {
    event.preventDefault();
    const reason = new FormData(event.target as HTMLFormElement).get("reason");
    answer(false, "once", typeof reason === "string" ? reason.trim() : "");
  };
  // A rule that fits nothing: for several commands or paths in one call there is none.
  const isNarrow = pending?.pattern.endsWith("()") !== true;
  const label = `${server === "rotunda" || server === "" ? "" : `${server}: `}${name}`;
  return (
    <section class="approval" aria-label={`Approval needed: ${shown(label)}`}>
      <p class="approval-title">
        <span class="approval-word">Allow</span>{" "}
        <code>
          <Visible text={label} />
        </code>
        <span class="quiet">?</span>
        {pending && <span class="approval-why"> It asks because {shown(pending.why)}.</span>}
      </p>
      {server === "rotunda" && (name === "write" || name === "edit") && may("approve") ? (
        <Change id={id} name={name} written={written} />
      ) : (
        <Arguments name={name} written={written} />
      )}
      {may("approve") ? (
        <div class="approval-buttons">
          <button type="button" class="primary" disabled={busy} onClick={() => answer(true, "once")}>
            Once
          </button>
          {isNarrow && (
            <button type="button" disabled={busy} onClick={() => answer(true, "session")}>
              This conversation
            </button>
          )}
          {isNarrow && may("admin") && (
            <button type="button" disabled={busy} onClick={() => answer(true, "always")} title={pending?.pattern}>
              Always {pending ? <code>{shown(pending.pattern)}</code> : "this pattern"}
            </button>
          )}
          <button type="button" class="danger" disabled={busy} aria-expanded={refusing} data-typing onClick={toggle}>
            No …
          </button>
        </div>
      ) : (
        <p class="quiet">Your token may not answer this.</p>
      )}
      {may("approve") && (
        <form class="row" hidden={!refusing} ref={form} onSubmit={refuse}>
          <label class="visually-hidden" for={reasonId}>
            Why not (the model is told)
          </label>
          <input
            id={reasonId}
            name="reason"
            placeholder="Why not? The model is told"
            maxLength={2_000}
            autocomplete="off"
          />
          <button type="submit" class="danger" disabled={busy}>
            Refuse
          </button>
        </form>
      )}
      {problem !== "" && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

/** Beside what the call was given, what it would make of the file that is there. */
function Change({ id, name, written }: { id: string; name: string; written: string }) {
  const [now, setNow] = useState<FileNow | undefined>(undefined);
  useEffect(() => {
    askJson<FileNow>(`/v1/tool-approvals/${id}/change`).then(setNow, () => undefined);
  }, [id]);
  return <Arguments name={name} written={written} now={now} />;
}
