/** What was used: tokens and money by day, model, profile; and the budgets. Invariant: sums are of the rows that the server told. */
import { useEffect, useRef } from "preact/hooks";
import { ask, askJson, may } from "../api.ts";
import { useCell } from "../cell.ts";
import { count, money } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { goTo, place } from "../router.tsx";
import { Empty, Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";
import { Chart, type Series } from "./chart.tsx";

interface Row {
  day?: string;
  model?: string;
  profile?: string;
  responses: number;
  input_tokens: number;
  output_tokens: number;
  cost: number | null;
}

type By = "model" | "profile";
const SPANS = [7, 30, 90];
/** Series of a chart beyond which the smallest are one. */
const MOST = 5;

export function UsageView(_: { id: string; other: string }) {
  const { query } = useCell(place);
  const asked = Number(query.get("days"));
  const days = SPANS.includes(asked) ? asked : 30;
  const by: By = query.get("by") === "profile" ? "profile" : "model";
  const { data, problem } = useLoad(`${days} ${by}`, () =>
    askJson<{ rows: Row[]; truncated: boolean }>(`/v1/usage?days=${days}&by=day&by=${by}`),
  );
  const rows = data?.rows ?? [];
  const dates = lastDays(days);
  const go = (next: { days?: number; by?: By }) =>
    goTo(`/usage?days=${next.days ?? days}&by=${next.by ?? by}`, { replace: true });
  const tokens = rows.reduce((sum, row) => sum + row.input_tokens + row.output_tokens, 0);
  const cost = rows.reduce((sum, row) => sum + (row.cost ?? 0), 0);
  return (
    <View
      title="Usage"
      wide
      problem={problem}
      aside={
        <div class="row">
          <select
            aria-label="Days"
            value={String(days)}
            onChange={(event) => go({ days: Number(event.currentTarget.value) })}
          >
            {SPANS.map((span) => (
              <option key={span} value={span}>
                {span} days
              </option>
            ))}
          </select>
          <select aria-label="By" value={by} onChange={(event) => go({ by: event.currentTarget.value as By })}>
            <option value="model">by model</option>
            <option value="profile">by profile</option>
          </select>
        </div>
      }
    >
      {data?.truncated && (
        <p class="hint">There is more than could be summed up in time: the older days are too low.</p>
      )}
      {data && rows.length === 0 && <Empty>Nothing was used in this time.</Empty>}
      {rows.length > 0 && (
        <>
          <div class="charts">
            <Chart
              title={`Tokens: ${count(tokens)}`}
              days={dates}
              series={seriesOf(rows, dates, by, (row) => row.input_tokens + row.output_tokens)}
              format={count}
            />
            <Chart
              title={`Money: ${money(cost)}`}
              days={dates}
              series={seriesOf(rows, dates, by, (row) => row.cost ?? 0)}
              format={money}
            />
          </div>
          <Sums rows={rows} by={by} />
          <details class="panel">
            <summary>Every day</summary>
            <Table rows={rows} by={by} />
          </details>
        </>
      )}
      {(may("settings") || may("admin")) && <Budgets />}
    </View>
  );
}

function lastDays(days: number): string[] {
  const today = Date.now();
  return Array.from({ length: days }, (_, at) =>
    new Date(today - (days - 1 - at) * 86_400_000).toISOString().slice(0, 10),
  );
}

function seriesOf(rows: readonly Row[], days: readonly string[], by: By, value: (row: Row) => number): Series[] {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(row[by] ?? "", (sums.get(row[by] ?? "") ?? 0) + value(row));
  const names = [...sums].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const own = names.slice(0, names.length > MOST ? MOST - 1 : MOST);
  const of = (fits: (row: Row) => boolean) =>
    days.map((day) =>
      rows.filter((row) => row.day?.slice(0, 10) === day && fits(row)).reduce((sum, row) => sum + value(row), 0),
    );
  const series = own.map((name) => ({ name: shown(name), values: of((row) => (row[by] ?? "") === name) }));
  if (own.length === names.length) return series;
  return [...series, { name: "others", values: of((row) => !own.includes(row[by] ?? "")) }];
}

function Sums({ rows, by }: { rows: readonly Row[]; by: By }) {
  const sums = new Map<string, Row>();
  for (const row of rows) {
    const name = row[by] ?? "";
    const sum = sums.get(name) ?? { [by]: name, responses: 0, input_tokens: 0, output_tokens: 0, cost: 0 };
    sum.responses += row.responses;
    sum.input_tokens += row.input_tokens;
    sum.output_tokens += row.output_tokens;
    sum.cost = (sum.cost ?? 0) + (row.cost ?? 0);
    sums.set(name, sum);
  }
  return <Table rows={[...sums.values()]} by={by} />;
}

function Table({ rows, by }: { rows: readonly Row[]; by: By }) {
  const dated = rows.some(({ day }) => day !== undefined);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="table-box" tabIndex={0} role="group" aria-label={dated ? "By day" : `By ${by}`}>
      <table class="numbers">
        <thead>
          <tr>
            {dated && <th scope="col">day</th>}
            <th scope="col">{by}</th>
            <th scope="col">responses</th>
            <th scope="col">tokens in</th>
            <th scope="col">tokens out</th>
            <th scope="col">cost</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.day} ${row[by]}`}>
              {dated && <td>{row.day}</td>}
              <th scope="row">{shown(row[by] ?? "")}</th>
              <td>{row.responses.toLocaleString()}</td>
              <td>{row.input_tokens.toLocaleString()}</td>
              <td>{row.output_tokens.toLocaleString()}</td>
              <td>{row.cost === null ? "" : money(row.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Amounts {
  cost?: number;
  tokens?: number;
  seconds?: number;
  agents?: number;
}

interface Budget {
  for: string;
  per: string;
  limits: Amounts;
  spent: Amounts;
  /** By a person through a door; else it stands in the configuration. */
  set: boolean;
}

const PERIODS = ["day", "month", "total"];

function Budgets() {
  const { data, problem, reload } = useLoad(
    "budgets",
    async () => (await askJson<{ data: Budget[] }>("/v1/budgets")).data,
  );
  const { busy, problem: failed, run } = useAction(reload);
  const { query } = useCell(place);
  const chosen = query.get("budget") ?? "all";
  const known = data?.find((budget) => budget.for === chosen);
  // What the form does not have stays as it is.
  const { cost, tokens, ...kept } = known?.limits ?? {};
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (query.has("budget")) form.current?.querySelector<HTMLInputElement>("[name=cost]")?.focus();
  }, [chosen, data !== undefined]);
  const change = (key: string) => {
    const next = new URLSearchParams(query);
    next.set("budget", key);
    goTo(`/usage?${next}`, { replace: true });
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const amount = (name: string) => (form.get(name) ? { [name]: Number(form.get(name)) } : {});
    const body = {
      ...kept,
      ...amount("cost"),
      ...amount("tokens"),
      for: String(form.get("for")).trim(),
      per: String(form.get("per")),
    };
    run(() => ask("/v1/budgets", { method: "PUT", body }));
  };
  return (
    <section class="section">
      <h2>Budgets</h2>
      <Problem text={problem || failed} />
      <ul class="list">
        {data?.map((budget) => (
          <li key={`${budget.for} ${budget.per}`}>
            <code>{shown(budget.for)}</code>
            <span>{budget.per === "total" ? "in all" : `per ${budget.per}`}</span>
            <Meters budget={budget} />
            <button
              type="button"
              disabled={busy}
              aria-label={`Change the budget for ${shown(budget.for)}`}
              onClick={() => change(budget.for)}
            >
              Change
            </button>
            {budget.set && (
              <button
                type="button"
                disabled={busy}
                aria-label={`Remove the budget for ${shown(budget.for)}`}
                onClick={() =>
                  run(() => ask(`/v1/budgets?for=${encodeURIComponent(budget.for)}`, { method: "DELETE" }))
                }
              >
                Remove
              </button>
            )}
          </li>
        ))}
      </ul>
      <form class="row" onSubmit={submit} ref={form} key={`${chosen} ${JSON.stringify(known?.limits)}`}>
        <label>
          For <input name="for" required defaultValue={chosen} size={18} autocomplete="off" />
        </label>
        <label>
          per{" "}
          <select name="per">
            {PERIODS.map((period) => (
              <option key={period} selected={period === known?.per}>
                {period}
              </option>
            ))}
          </select>
        </label>
        <label>
          at most $ <input name="cost" type="number" min="0" step="any" size={8} defaultValue={cost ?? ""} />
        </label>
        <label>
          and tokens <input name="tokens" type="number" min="1" step="1" size={10} defaultValue={tokens ?? ""} />
        </label>
        <button type="submit" disabled={busy}>
          Set
        </button>
      </form>
      <p class="hint">
        <code>all</code>, <code>profile/NAME</code>, <code>model/NAME</code>, <code>token/NAME</code>,{" "}
        <code>tree/ID</code> or <code>response/ID</code>. What reaches its budget waits until there is more.
      </p>
    </section>
  );
}

const SHOWN: Record<keyof Amounts, (value: number) => string> = {
  cost: money,
  tokens: count,
  seconds: (value) => `${Math.round(value)} s`,
  agents: String,
};

function Meters({ budget }: { budget: Budget }) {
  return (Object.keys(SHOWN) as (keyof Amounts)[]).map((kind) => {
    const limit = budget.limits[kind];
    if (limit === undefined) return null;
    const spent = budget.spent[kind] ?? 0;
    return (
      <span key={kind} class="budget">
        <meter
          min={0}
          max={limit}
          high={limit * 0.8}
          value={spent}
          aria-label={`${kind} used for ${shown(budget.for)}`}
        />{" "}
        {SHOWN[kind](spent)} of {SHOWN[kind](limit)} {kind === "cost" ? "" : kind}
      </span>
    );
  });
}
