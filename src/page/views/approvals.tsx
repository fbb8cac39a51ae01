/** All questions that wait for a person, and the rules that answers have left. Invariant: the oldest first; each is answered where it stands. */
import { ask, askJson, may } from "../api.ts";
import { ApprovalCard } from "../approval-card.tsx";
import { useCell } from "../cell.ts";
import { doorWord, shortId, when } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { plainText } from "../plain.ts";
import { Question } from "../question.tsx";
import { Link } from "../router.tsx";
import { approvals, elicitations } from "../shared.ts";
import { Empty, Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";
import type { PendingApproval } from "../wire.ts";

export function ApprovalsView(_: { id: string; other: string }) {
  const pending = useCell(approvals);
  const questions = useCell(elicitations);
  return (
    <View title="Approvals">
      {pending.length + questions.length === 0 && <Empty>Nothing waits for you.</Empty>}
      {questions.map((question) => (
        <Question key={question.id} question={question} />
      ))}
      <ul class="approvals">
        {pending.map((one) => (
          <li key={one.id}>
            <Origin approval={one} />
            <ApprovalCard
              id={one.id}
              name={one.toolName}
              written={JSON.stringify(one.arguments)}
              server={one.serverLabel}
            />
          </li>
        ))}
      </ul>
      <Rules />
    </View>
  );
}

/** What it is about: what a person asked, where it works, and through which door it came. */
function Origin({ approval }: { approval: PendingApproval }) {
  const { responseId, prompt, workspace, door, createdAt, expiresAt } = approval;
  return (
    <div class="origin">
      <Link to={`/r/${responseId}`} class="origin-prompt">
        {prompt ? shown(plainText(prompt)) : `Response ${shortId(responseId)}`}
      </Link>
      <p class="hint">
        {workspace !== undefined && (
          <>
            in <code>{shown(workspace)}</code>
          </>
        )}
        {door !== undefined && `, through ${doorWord(door)}`}; asked {when(createdAt)}, waits until {when(expiresAt)}
      </p>
    </div>
  );
}

interface Rule {
  id: string;
  scope: string;
  rule: string;
  createdAt: number;
}

function Rules() {
  const { data, problem, reload } = useLoad("rules", async () =>
    may("approve") || may("admin") ? (await askJson<{ data: Rule[] }>("/v1/rules")).data : [],
  );
  const { busy, problem: failed, run } = useAction(reload);
  if (!data || data.length === 0) return null;
  return (
    <section class="section">
      <h2>Remembered answers</h2>
      <Problem text={problem || failed} />
      <ul class="list">
        {data.map(({ id, scope, rule, createdAt }) => (
          <li key={id}>
            <code>{shown(rule)}</code>
            <span class="quiet">
              {scope === "always" ? "always in this workspace" : "in one conversation"}, since {when(createdAt)}
            </span>
            <button
              type="button"
              disabled={busy}
              aria-label={`Take back ${shown(rule)}`}
              onClick={() => run(() => ask(`/v1/rules/${id}`, { method: "DELETE" }))}
            >
              Take back
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
