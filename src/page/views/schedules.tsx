/** What starts by itself. Invariant: one that stands in a configuration file is shown, and changed there. */
import { useState } from "preact/hooks";
import { ask, askJson, may } from "../api.ts";
import { useCell } from "../cell.ts";
import { exactly, when } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { Link } from "../router.tsx";
import { models, profiles } from "../shared.ts";
import { Empty, Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";

interface Schedule {
  id: string;
  name: string;
  cron: string | null;
  timezone: string;
  input: string;
  profile: string | null;
  model: string | null;
  enabled: boolean;
  next_at: string | null;
  last_at: string | null;
  last_response_id: string | null;
  error: string | null;
  configured: boolean;
}

export function SchedulesView(_: { id: string; other: string }) {
  const { data, problem, reload } = useLoad(
    "schedules",
    async () => (await askJson<{ data: Schedule[] }>("/v1/schedules")).data,
  );
  return (
    <View title="Schedules" problem={problem}>
      {data?.length === 0 && <Empty>Nothing is scheduled.</Empty>}
      <ul class="cards">
        {data?.map((schedule) => (
          <One key={schedule.id} schedule={schedule} onChange={reload} />
        ))}
      </ul>
      {may("responses:write") && <Maker onMade={reload} />}
    </View>
  );
}

function One({ schedule, onChange }: { schedule: Schedule; onChange: () => void }) {
  const { busy, problem, run } = useAction(onChange);
  const { id, name, cron, timezone, input, enabled, next_at, last_at, last_response_id, error, configured } = schedule;
  const change = (body: object) => run(() => ask(`/v1/schedules/${id}`, { method: "PATCH", body }));
  const time = (at: string | null) => (at === null ? "never" : when(Date.parse(at)));
  return (
    <li class="card">
      <div class="row">
        <h2>{shown(name)}</h2>
        <code>{cron === null ? "once" : shown(cron)}</code>
        <span class="quiet">{cron === null ? "" : timezone}</span>
        <span class="stretch" />
        {configured ? (
          <span class="quiet">from a configuration file</span>
        ) : (
          <>
            <button
              type="button"
              disabled={busy}
              aria-pressed={enabled}
              aria-label={`${shown(name)} is ${enabled ? "on" : "off"}`}
              onClick={() => change({ enabled: !enabled })}
            >
              {enabled ? "On" : "Off"}
            </button>
            <button
              type="button"
              class="danger"
              disabled={busy}
              aria-label={`Remove ${shown(name)}`}
              onClick={() =>
                confirm(`Remove ${shown(name)}?`) && run(() => ask(`/v1/schedules/${id}`, { method: "DELETE" }))
              }
            >
              Remove
            </button>
          </>
        )}
      </div>
      <p>{shown(input.slice(0, 300))}</p>
      <p class="hint">
        <span title={next_at === null ? "" : exactly(Date.parse(next_at))}>Next: {time(next_at)}</span> · Last:{" "}
        {time(last_at)} {last_response_id !== null && <Link to={`/r/${last_response_id}`}>its answer</Link>} ·{" "}
        {shown(schedule.profile ?? "default agent")}
        {schedule.model !== null && `, ${shown(schedule.model)}`}
      </p>
      <Problem text={problem} />
      <Problem text={shown(error ?? "")} />
    </li>
  );
}

function Maker({ onMade }: { onMade: () => void }) {
  const known = useCell(models);
  const agents = useCell(profiles);
  const [kind, setKind] = useState("cron");
  const { busy, problem, run } = useAction(onMade);
  const submit = (event: Event) => {
    event.preventDefault();
    const element = event.target as HTMLFormElement;
    const form = new FormData(element);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const timing =
      kind === "cron" ? { cron: text("cron"), timezone: text("timezone") } : { at: new Date(text("at")).toISOString() };
    const body = {
      name: text("name"),
      input: text("input"),
      ...timing,
      ...(text("model") !== "" && { model: text("model") }),
    };
    run(async () => {
      await ask("/v1/schedules", { body });
      element.reset();
      setKind("cron");
    });
  };
  return (
    <section class="section">
      <h2>A new schedule</h2>
      <form class="form" onSubmit={submit}>
        <label>
          Name
          <input name="name" required maxLength={100} autocomplete="off" />
        </label>
        <label>
          When
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="cron">repeatedly (cron)</option>
            <option value="at">once</option>
          </select>
        </label>
        {kind === "cron" ? (
          <>
            <label>
              Cron
              <input name="cron" required placeholder="0 8 * * 1-5" autocomplete="off" />
            </label>
            <label>
              Time zone
              <input
                name="timezone"
                required
                defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"}
                autocomplete="off"
              />
            </label>
          </>
        ) : (
          <label>
            Moment
            <input name="at" type="datetime-local" required />
          </label>
        )}
        <label>
          Who answers
          <select name="model">
            <option value="">default agent</option>
            {agents.map(({ id }) => (
              <option key={id} value={`profile/${id}`}>
                {shown(id)}
              </option>
            ))}
            {known.map(({ id }) => (
              <option key={id} value={id}>
                {shown(id)}
              </option>
            ))}
          </select>
        </label>
        <label class="wide">
          Prompt
          <textarea name="input" rows={3} required />
        </label>
        <Problem text={problem} />
        <button type="submit" class="primary" disabled={busy}>
          Schedule
        </button>
      </form>
    </section>
  );
}
