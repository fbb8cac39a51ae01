/** Who can answer: models, and profiles. Invariant: what stands in a file or is built in is shown and not changed here. */
import { useState } from "preact/hooks";
import { ask, askJson, may } from "../api.ts";
import { useCell } from "../cell.ts";
import { count } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { type Choice, models, readModels } from "../shared.ts";
import { Empty, Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";

interface Profile {
  id: string;
  name: string;
  isDefault: boolean;
}

interface Whole extends Profile {
  guidelines: string;
  systemPrompt: string;
  description: string;
}

const ORIGINS: Record<string, string> = {
  config: "from the configuration",
  environment: "by a key of the environment",
  local: "a model server on this machine",
  demo: "built in, no language model",
  agent: "an agent of another program",
  library: "given by the program",
};

/** Where it is, where it comes from, what it can take and what it costs, as far as it is known. */
function factsOf({ owner, endpoint, window, price }: Choice): string {
  return [
    endpoint === undefined ? "" : shown(endpoint),
    ORIGINS[owner] ?? shown(owner),
    window === undefined ? "" : `${count(window)} tokens of context`,
    price === undefined ? "" : `$${price.input} in, $${price.output} out for a million tokens`,
  ]
    .filter((fact) => fact !== "")
    .join(" · ");
}

export function ModelsView(_: { id: string; other: string }) {
  const known = useCell(models);
  const { data, problem, reload } = useLoad("profiles", () =>
    askJson<{ profiles: Profile[]; currentProfileId: string }>("/v1/profiles"),
  );
  const change = () => {
    reload();
    readModels().catch(() => undefined);
  };
  return (
    <View title="Models and profiles" problem={problem}>
      <section class="section">
        <h2>Models</h2>
        {known.length === 0 && <Empty>None.</Empty>}
        <ul class="list">
          {known.map((model) => (
            <li key={model.id}>
              <code>{shown(model.id)}</code>
              {model.usual && <span class="tag">default</span>}
              <span class="quiet">{factsOf(model)}</span>
            </li>
          ))}
        </ul>
      </section>
      <section class="section">
        <h2>Profiles</h2>
        <ul class="cards">
          {data?.profiles.map((profile) => (
            <One key={profile.id} profile={profile} current={profile.id === data.currentProfileId} onChange={change} />
          ))}
        </ul>
      </section>
      {may("settings") && <Maker onMade={change} />}
    </View>
  );
}

function One({ profile, current, onChange }: { profile: Profile; current: boolean; onChange: () => void }) {
  const { id, name, isDefault } = profile;
  const { busy, problem, run } = useAction(onChange);
  const [editing, setEditing] = useState(false);
  const label = shown(name);
  const done = () => {
    setEditing(false);
    onChange();
  };
  return (
    <li class="card">
      <div class="row">
        <h2>{label}</h2>
        {isDefault && <span class="quiet">built in</span>}
        {current && <span class="tag">default</span>}
        <span class="stretch" />
        {may("settings") && !current && (
          <button
            type="button"
            disabled={busy}
            aria-label={`Make default: ${label}`}
            onClick={() => run(() => ask("/v1/profiles/current", { body: { profileId: id } }))}
          >
            Make default
          </button>
        )}
        {may("settings") && !isDefault && (
          <>
            <button
              type="button"
              aria-expanded={editing}
              aria-label={`Edit ${label}`}
              onClick={() => setEditing(!editing)}
            >
              Edit
            </button>
            <button
              type="button"
              class="danger"
              disabled={busy}
              aria-label={`Delete ${label}`}
              onClick={() =>
                confirm(`Delete the profile ${label}?`) &&
                run(() => ask(`/v1/profiles/${encodeURIComponent(id)}`, { method: "DELETE" }))
              }
            >
              Delete
            </button>
          </>
        )}
      </div>
      {editing && <Editor id={id} onDone={done} />}
      <Problem text={problem} />
    </li>
  );
}

function Editor({ id, onDone }: { id: string; onDone: () => void }) {
  const { data, problem } = useLoad(
    id,
    async () => (await askJson<{ profile: Whole }>(`/v1/profiles/${encodeURIComponent(id)}/export`)).profile,
    false,
  );
  if (!data) return <Problem text={problem} />;
  const save = (body: object) => ask(`/v1/profiles/${encodeURIComponent(id)}`, { method: "PATCH", body });
  return <Fields values={data} label="Save" save={save} onDone={onDone} />;
}

function Maker({ onMade }: { onMade: () => void }) {
  const [open, setOpen] = useState(false);
  const [made, setMade] = useState(0);
  const done = () => {
    setOpen(false);
    setMade(made + 1);
    onMade();
  };
  return (
    <details class="panel" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>A new profile</summary>
      <Fields
        key={made}
        values={{ name: "", guidelines: "", systemPrompt: "" }}
        label="Create"
        save={(body) => ask("/v1/profiles", { body })}
        onDone={done}
      />
    </details>
  );
}

interface FieldsProperties {
  values: Partial<Whole>;
  label: string;
  save: (body: object) => Promise<unknown>;
  onDone: () => void;
}

function Fields({ values, label, save, onDone }: FieldsProperties) {
  const { busy, problem, run } = useAction(onDone);
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const prompt = text("systemPrompt");
    run(() =>
      save({ name: text("name"), guidelines: text("guidelines"), ...(prompt !== "" && { systemPrompt: prompt }) }),
    );
  };
  return (
    <form class="form" onSubmit={submit}>
      <label>
        Name
        <input name="name" required maxLength={100} defaultValue={values.name ?? ""} autocomplete="off" />
      </label>
      <label class="wide">
        Guidelines, told behind the instructions
        <textarea name="guidelines" rows={3} defaultValue={values.guidelines ?? ""} />
      </label>
      <label class="wide">
        Instructions (empty: the built-in ones)
        <textarea name="systemPrompt" rows={4} defaultValue={values.systemPrompt ?? ""} />
      </label>
      <Problem text={problem} />
      <button type="submit" class="primary" disabled={busy}>
        {label}
      </button>
    </form>
  );
}
