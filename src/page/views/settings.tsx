/** Settings: of this browser, and of the server. Invariant: a secret that is shown masked is sent back only where a person typed another. */
import { useState } from "preact/hooks";
import { ask, askJson, may, session } from "../api.ts";
import { type Appearance, appearance, setAppearance } from "../appearance.ts";
import { useCell } from "../cell.ts";
import { useAction, useLoad } from "../load.ts";
import { Link } from "../router.tsx";
import { signOut } from "../session.ts";
import { models, profiles } from "../shared.ts";
import { Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";

type Values = Record<string, unknown>;

export function SettingsView(_: { id: string; other: string }) {
  const who = useCell(session);
  const { busy, problem, run } = useAction();
  return (
    <View title="Settings">
      <Look />
      <InForce />
      {may("settings") && <Server />}
      <section class="section">
        <h2>Session</h2>
        <p>
          Signed in as <strong>{shown(who?.name ?? "")}</strong>, who may: {who?.scopes.join(", ")}.
        </p>
        <Problem text={problem} />
        <button type="button" disabled={busy} onClick={() => run(signOut)}>
          Sign out
        </button>
      </section>
    </View>
  );
}

const LOOKS: { value: Appearance; name: string }[] = [
  { value: "system", name: "as the system" },
  { value: "light", name: "light" },
  { value: "dark", name: "dark" },
];

function Look() {
  const chosen = useCell(appearance);
  return (
    <fieldset class="section">
      <legend>Appearance, in this browser</legend>
      <div class="row">
        {LOOKS.map(({ value, name }) => (
          <label key={value} class="check">
            <input type="radio" name="appearance" checked={chosen === value} onChange={() => setAppearance(value)} />{" "}
            {name}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** What holds now, wherever it was decided: to be read here, and changed elsewhere. */
function InForce() {
  const who = useCell(session);
  const model = useCell(models).find(({ usual }) => usual)?.id;
  const agent = useCell(profiles).find(({ usual }) => usual)?.id;
  const facts: [string, string | undefined][] = [
    ["Default profile", agent],
    ["Default model", model],
    ["Working directory", who?.server?.workspace],
    ["Database", who?.server?.database],
    ["Version", who?.version],
  ];
  return (
    <section class="section">
      <h2>In force</h2>
      <dl class="facts">
        {facts.map(
          ([name, value]) =>
            value !== undefined && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <code>{shown(value)}</code>
                </dd>
              </div>
            ),
        )}
      </dl>
      <p class="hint">
        Profiles and the default one: <Link to="/models">Models and profiles</Link>. All the rest stands in{" "}
        <code>rotunda.yaml</code>; <code>rotunda config show --origin</code> says where each value comes from.
      </p>
    </section>
  );
}

/** Those that do nothing here: docs/configuration.md says the same. */
const WITHOUT_EFFECT = new Set([
  "apiRetryBaseDelay",
  "apiRetryMaxDelay",
  "mcpContextReductionEnabled",
  "mcpContextTargetRatio",
  "mcpContextLastNMessages",
  "mcpContextSummarizeCharThreshold",
]);

/** "mcpMaxIterations" as people read it. */
function readable(key: string): string {
  const words = key
    .replace(/^mcp(?=[A-Z])/, "")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase();
  const named = words.replace(/\b(?:openai|api|url|id)\b/g, (word) =>
    word === "openai" ? "OpenAI" : word.toUpperCase(),
  );
  return named.charAt(0).toUpperCase() + named.slice(1);
}

function Server() {
  const { data, problem, reload } = useLoad("settings", () => askJson<Values>("/v1/settings"), false);
  const [saved, setSaved] = useState(false);
  const {
    busy,
    problem: failed,
    run,
  } = useAction(() => {
    setSaved(true);
    reload();
  });
  if (!data) return <Problem text={problem} />;
  const entries = Object.entries(data).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  const isBox = ([, value]: [string, unknown]) => typeof value === "boolean";
  const inForce = entries.filter(([key]) => !WITHOUT_EFFECT.has(key));
  const kept = entries.filter(([key]) => WITHOUT_EFFECT.has(key));
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const changed: Values = {};
    for (const [key, before] of entries) {
      const now = read(form.get(key), before);
      if (now !== before) changed[key] = now;
    }
    if (Object.keys(changed).length > 0) run(() => ask("/v1/settings", { method: "PATCH", body: changed }));
  };
  return (
    <section class="section">
      <h2>SpeakMCP's settings</h2>
      <p class="hint">
        The keys of SpeakMCP, for its apps and for people who come from it: they choose a provider's model, key and
        address, and bound what begins afterwards. They are stronger than <code>rotunda.yaml</code> and weaker than the
        environment.
      </p>
      <form class="form" onSubmit={submit} onInput={() => setSaved(false)} key={JSON.stringify(data)}>
        {inForce.filter((entry) => !isBox(entry)).map(Field)}
        <div class="wide row">{inForce.filter(isBox).map(Field)}</div>
        <details class="wide">
          <summary class="hint">{kept.length} more that SpeakMCP has: they are kept, and have no effect here</summary>
          <div class="form">{[...kept.filter((entry) => !isBox(entry)), ...kept.filter(isBox)].map(Field)}</div>
        </details>
        <Problem text={failed} />
        <button type="submit" class="primary" disabled={busy}>
          Save
        </button>
        <p class="hint" role="status">
          {saved ? "Saved." : ""}
        </p>
      </form>
    </section>
  );
}

function Field([key, value]: [string, unknown]) {
  const id = `setting-${key}`;
  return (
    <label key={key} for={id} class={typeof value === "boolean" ? "check" : ""} title={key}>
      {typeof value === "boolean" && <input type="checkbox" id={id} name={key} defaultChecked={value} />}
      {readable(key)}
      {typeof value === "number" && <input id={id} name={key} type="number" step="any" required defaultValue={value} />}
      {typeof value === "string" && (
        <input id={id} name={key} defaultValue={value} autocomplete="off" spellcheck={false} />
      )}
    </label>
  );
}

function read(given: FormDataEntryValue | null, before: unknown): unknown {
  if (typeof before === "boolean") return given !== null;
  const text = typeof given === "string" ? given : "";
  return typeof before === "number" ? Number(text) : text;
}
