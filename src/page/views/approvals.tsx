/** All questions that wait for a person, and the rules that came of answers. Invariant: the oldest first; each is answered where it stands. */
import { useId } from "preact/hooks";
import { ask, askJson, may } from "../api.ts";
import { ApprovalCard } from "../approval-card.tsx";
import { useCell } from "../cell.ts";
import { shortId, when } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { Link } from "../router.tsx";
import { approvals, elicitations, lookAgain } from "../shared.ts";
import { Empty, Problem, View } from "../view.tsx";
import { shown, Visible } from "../visible.tsx";
import type { Elicitation, ElicitationField } from "../wire.ts";

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
            <p class="hint">
              <Link to={`/r/${one.responseId}`}>Response {shortId(one.responseId)}</Link> asked{" "}
              {`${when(one.createdAt)}, and waits until ${when(one.expiresAt)}.`}
            </p>
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

/** What an MCP server wants to know. */
function Question({ question }: { question: Elicitation }) {
  const { busy, problem, run } = useAction(lookAgain);
  const fields = Object.entries(question.requestedSchema?.properties ?? {});
  const answer = (action: string, content?: unknown) =>
    run(() =>
      ask(`/v1/elicitation/${question.id}/resolve`, { body: { action, ...(content !== undefined && { content }) } }),
    );
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const content = Object.fromEntries(fields.map(([name, field]) => [name, givenValue(form.get(name), field)]));
    answer("accept", content);
  };
  return (
    <form class="approval" aria-label={`Question of ${shown(question.server)}`} onSubmit={submit}>
      <p class="approval-title">
        <strong>{shown(question.server)}</strong> asks: <Visible text={question.message} />
      </p>
      <Address url={question.url} />
      {fields.map(([name, field]) => (
        <Field
          key={name}
          name={name}
          field={field}
          required={question.requestedSchema?.required?.includes(name) === true}
        />
      ))}
      <div class="approval-buttons">
        <button type="submit" class="primary" disabled={busy}>
          Answer
        </button>
        <button type="button" disabled={busy} onClick={() => answer("decline")}>
          Decline
        </button>
        <button type="button" disabled={busy} onClick={() => answer("cancel")}>
          Cancel
        </button>
      </div>
      <Problem text={problem} />
    </form>
  );
}

/** Opened by a person's own click, and told where it leads: it comes from a server. */
function Address({ url }: { url: string | null }) {
  if (url === null || !/^https?:\/\//i.test(url)) return null;
  return (
    <p>
      <a href={url} target="_blank" rel="noopener noreferrer">
        Open {new URL(url).host}
      </a>{" "}
      <code>
        <Visible text={url} />
      </code>
    </p>
  );
}

function givenValue(given: FormDataEntryValue | null, { type }: ElicitationField): unknown {
  if (type === "boolean") return given !== null;
  const text = typeof given === "string" ? given : "";
  return type === "number" || type === "integer" ? Number(text) : text;
}

function Field({ name, field, required }: { name: string; field: ElicitationField; required: boolean }) {
  const id = useId();
  const label = shown(field.title ?? name);
  return (
    <p class="field">
      <label for={id}>{label}</label>
      {field.enum ? (
        <select id={id} name={name} required={required}>
          {field.enum.map((value) => (
            <option key={value}>{value}</option>
          ))}
        </select>
      ) : (
        <FieldInput id={id} name={name} field={field} required={required} />
      )}
      {field.description !== undefined && <span class="hint">{shown(field.description)}</span>}
    </p>
  );
}

interface FieldInputProperties {
  id: string;
  name: string;
  field: ElicitationField;
  required: boolean;
}

function FieldInput({ id, name, field, required }: FieldInputProperties) {
  if (field.type === "boolean") return <input id={id} name={name} type="checkbox" />;
  const number = field.type === "number" || field.type === "integer";
  if (number) return <input id={id} name={name} type="number" step="any" required={required} />;
  return <input id={id} name={name} required={required} autocomplete="off" />;
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
      <h2>Rules that came of your answers</h2>
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
