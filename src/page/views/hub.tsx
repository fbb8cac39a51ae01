/** The MCP servers of the hub: health, logs, login. Invariant: a state is the server's word, looked at again after every action. */
import { useState } from "preact/hooks";
import { ask, askJson, may, words } from "../api.ts";
import { exactly } from "../format.ts";
import { useAction, useLoad } from "../load.ts";
import { goTo, Link } from "../router.tsx";
import { Empty, Problem, View } from "../view.tsx";
import { shown, Visible } from "../visible.tsx";

interface Server {
  name: string;
  state: string;
  connected: boolean;
  enabled: boolean;
  transport: string;
  toolCount: number;
  error?: string;
}

const SIGNS: Record<string, string> = {
  healthy: "✓",
  failed: "✕",
  needs_login: "◆",
  disabled: "⊘",
  stopped: "⊘",
  known: "◌",
  configured: "◌",
  started: "●",
};
const CLASSES: Record<string, string> = {
  healthy: "completed",
  failed: "failed",
  needs_login: "waiting",
  started: "in_progress",
};

export function HubView({ id }: { id: string; other: string }) {
  const { data, problem, reload } = useLoad(
    "servers",
    async () => (await askJson<{ servers: Server[] }>("/v1/mcp/servers")).servers,
  );
  const server = data?.find(({ name }) => name === id);
  if (id !== "") {
    return (
      <View title={shown(id)} problem={problem} aside={<Link to="/hub">All servers</Link>}>
        {server && <One server={server} onChange={reload} />}
        {data && !server && <Empty>There is no such server.</Empty>}
        {server && may("mcp:admin") && <Logs name={id} />}
        {server && may("admin") && <Remover name={id} />}
      </View>
    );
  }
  return (
    <View title="Hub" problem={problem}>
      {data?.length === 0 && (
        <Empty>
          No MCP server is configured. <code>rotunda init</code> writes a file with examples; the ones of Claude, Cursor
          and VS Code are imported by <code>rotunda import</code>.
        </Empty>
      )}
      <ul class="cards">
        {data?.map((one) => (
          <li key={one.name} class="card">
            <One server={one} onChange={reload} />
          </li>
        ))}
      </ul>
      {may("admin") && <Adder onMade={reload} />}
    </View>
  );
}

function One({ server, onChange }: { server: Server; onChange: () => void }) {
  const { name, state, enabled, transport, toolCount, error } = server;
  const { busy, problem, run } = useAction(onChange);
  const post = (action: string, body: object = {}) =>
    run(() => ask(`/v1/mcp/servers/${encodeURIComponent(name)}/${action}`, { body }));
  const label = shown(name);
  return (
    <>
      <div class="row">
        <h2>
          <Link to={`/hub/${encodeURIComponent(name)}`}>{label}</Link>
        </h2>
        <span class={`status status-${CLASSES[state] ?? "queued"}`}>
          <span aria-hidden="true">{SIGNS[state] ?? "·"}</span> {state.replace("_", " ")}
        </span>
        <span class="quiet">
          {toolCount} tools · {transport}
        </span>
      </div>
      <Problem text={shown(error ?? "")} />
      <Problem text={problem} />
      {may("mcp:admin") && (
        <div class="row actions">
          <button
            type="button"
            disabled={busy}
            aria-pressed={enabled}
            aria-label={`${label} is ${enabled ? "on" : "off"}`}
            onClick={() => post("toggle", { enabled: !enabled })}
          >
            {enabled ? "On" : "Off"}
          </button>
          <button type="button" disabled={busy || !enabled} aria-label={`Test ${label}`} onClick={() => post("test")}>
            Test
          </button>
          <button
            type="button"
            disabled={busy || !enabled}
            aria-label={`Restart ${label}`}
            onClick={() => post("restart")}
          >
            Restart
          </button>
          <button type="button" disabled={busy} aria-label={`Stop ${label}`} onClick={() => post("stop")}>
            Stop
          </button>
          {transport !== "stdio" && <Login name={name} state={state} onChange={onChange} />}
        </div>
      )}
    </>
  );
}

/** The address is opened by a person's own click: it comes from a server, and may be anything. */
function Login({ name, state, onChange }: { name: string; state: string; onChange: () => void }) {
  const { busy, problem, run } = useAction(onChange);
  const [address, setAddress] = useState("");
  const begin = () =>
    run(async () => {
      const { authorizationUrl } = await askJson<{ authorizationUrl: string }>("/v1/oauth/initiate", {
        body: { serverName: name },
      });
      if (!/^https?:/i.test(authorizationUrl) || !URL.canParse(authorizationUrl)) {
        throw new Error("The address that it gives for logging in is none of the web.");
      }
      setAddress(authorizationUrl);
    });
  return (
    <>
      {state === "needs_login" && (
        <button type="button" class="primary" disabled={busy} onClick={begin}>
          Log in
        </button>
      )}
      {state !== "needs_login" && (
        <button
          type="button"
          disabled={busy}
          aria-label={`Forget login: ${shown(name)}`}
          onClick={() => run(() => ask("/v1/oauth/logout", { body: { serverName: name } }))}
        >
          Forget login
        </button>
      )}
      {address !== "" && state === "needs_login" && (
        <a href={address} target="_blank" rel="noopener noreferrer">
          Log in at {shown(new URL(address).host)}
        </a>
      )}
      <Problem text={problem} />
    </>
  );
}

function Logs({ name }: { name: string }) {
  type Line = { timestamp: number; message: string };
  const path = `/v1/mcp/servers/${encodeURIComponent(name)}/logs`;
  const { data, problem, reload } = useLoad(name, async () => (await askJson<{ logs: Line[] }>(path)).logs);
  const clear = useAction(reload);
  return (
    <section class="section">
      <div class="row">
        <h2>Log</h2>
        <button type="button" onClick={reload}>
          Look again
        </button>
        <button type="button" disabled={clear.busy} onClick={() => clear.run(() => ask(`${path}/clear`, { body: {} }))}>
          Clear
        </button>
      </div>
      <Problem text={problem || clear.problem} />
      {data?.length === 0 && <Empty>It has said nothing.</Empty>}
      {data && data.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre class="output log" tabIndex={0} role="group" aria-label="Log">
          {data.map(({ timestamp, message }, index) => (
            <span key={index}>
              <span class="quiet">{exactly(timestamp)}</span> <Visible text={message} />
              {"\n"}
            </span>
          ))}
        </pre>
      )}
    </section>
  );
}

/** One that stands in a configuration file is taken out there, as the server says. */
function Remover({ name }: { name: string }) {
  const { busy, problem, run } = useAction(() => goTo("/hub"));
  const label = shown(name);
  return (
    <section class="section">
      <button
        type="button"
        class="danger"
        disabled={busy}
        onClick={() =>
          confirm(`Remove the server ${label}?`) &&
          run(() => ask(`/v1/mcp/servers/${encodeURIComponent(name)}`, { method: "DELETE" }))
        }
      >
        Remove {label}
      </button>
      <Problem text={shown(problem)} />
    </section>
  );
}

/** Throws what a person can mend. */
function configurationOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The configuration is no JSON: ${words(error)}`);
  }
}

function Adder({ onMade }: { onMade: () => void }) {
  const { busy, problem, run } = useAction(onMade);
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const name = String(form.get("name")).trim();
    run(async () => {
      const config = configurationOf(String(form.get("config")));
      await ask("/v1/mcp/servers", { body: { name, config } });
      goTo(`/hub/${encodeURIComponent(name)}`);
    });
  };
  return (
    <details class="panel">
      <summary>Add a server</summary>
      <form class="form" onSubmit={submit}>
        <label>
          Name
          <input name="name" required maxLength={64} autocomplete="off" />
        </label>
        <label class="wide">
          <span>
            Configuration, as in an <code>mcpServers</code> file. A command in it runs on the server's machine.
          </span>
          <textarea
            name="config"
            rows={4}
            required
            class="mono"
            defaultValue={'{ "command": "npx", "args": ["-y", "…"] }'}
          />
        </label>
        <Problem text={problem} />
        <button type="submit" class="primary" disabled={busy}>
          Add
        </button>
      </form>
    </details>
  );
}
