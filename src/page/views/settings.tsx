/** Settings: of this browser, and of the server. Invariant: a secret that is shown masked is sent back only where a person typed another. */
import { useState } from "preact/hooks";
import { ask, askJson, may, session } from "../api.ts";
import { type Appearance, appearance, setAppearance } from "../appearance.ts";
import { useCell } from "../cell.ts";
import { useAction, useLoad } from "../load.ts";
import { signOut } from "../session.ts";
import { Problem, View } from "../view.tsx";
import { shown } from "../visible.tsx";

type Values = Record<string, unknown>;

export function SettingsView(_: { id: string; other: string }) {
  const who = useCell(session);
  const { busy, problem, run } = useAction();
  return (
    <View title="Settings">
      <Look />
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

/** "mcpMaxIterations" as people read it. */
function readable(key: string): string {
  const words = key
    .replace(/^mcp(?=[A-Z])/, "")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
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
      <h2>Server</h2>
      <p class="hint">
        In force for everything that begins afterwards. What stands in configuration files or the environment is not
        written here.
      </p>
      <form class="form" onSubmit={submit} onInput={() => setSaved(false)} key={JSON.stringify(data)}>
        {entries.map(([key, value]) => (
          <label key={key} for={`setting-${key}`} class={typeof value === "boolean" ? "check" : ""}>
            {typeof value === "boolean" && (
              <input type="checkbox" id={`setting-${key}`} name={key} defaultChecked={value} />
            )}
            {readable(key)}
            {typeof value === "number" && (
              <input id={`setting-${key}`} name={key} type="number" step="any" required defaultValue={value} />
            )}
            {typeof value === "string" && (
              <input id={`setting-${key}`} name={key} defaultValue={value} autocomplete="off" spellcheck={false} />
            )}
          </label>
        ))}
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

function read(given: FormDataEntryValue | null, before: unknown): unknown {
  if (typeof before === "boolean") return given !== null;
  const text = typeof given === "string" ? given : "";
  return typeof before === "number" ? Number(text) : text;
}
