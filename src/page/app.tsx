/** The frame: navigation, the view of the address, what stands around it. Invariant: a view's code is loaded when it is first wanted. */
import { Component, type ComponentChildren, type FunctionComponent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Announcer } from "./announce.tsx";
import { online, session, words } from "./api.ts";
import { Cell, useCell } from "./cell.ts";
import { ChatView } from "./chat-view.tsx";
import { HelpSheet } from "./help.tsx";
import { Icon } from "./icons.tsx";
import { drawerOpen, helpOpen } from "./overlays.ts";
import { goTo, Link, place } from "./router.tsx";
import { approvals, conversations, elicitations, followNews, outdated, readAll } from "./shared.ts";
import { listenToKeys } from "./shortcuts.ts";
import { Sidebar, titleOf } from "./sidebar.tsx";
import { SignIn } from "./sign-in.tsx";
import { shown } from "./visible.tsx";

type View = FunctionComponent<{ id: string; other: string }>;

/** By the first word of the path. */
const views: Record<string, { title: string; load: () => Promise<View> }> = {
  tree: { title: "Tree", load: async () => (await import("./views/tree.tsx")).TreeView },
  compare: { title: "Compare", load: async () => (await import("./views/compare.tsx")).CompareView },
  runs: { title: "Runs", load: async () => (await import("./views/runs.tsx")).RunsView },
  schedules: { title: "Schedules", load: async () => (await import("./views/schedules.tsx")).SchedulesView },
  approvals: { title: "Approvals", load: async () => (await import("./views/approvals.tsx")).ApprovalsView },
  hub: { title: "Hub", load: async () => (await import("./views/hub.tsx")).HubView },
  models: { title: "Models and profiles", load: async () => (await import("./views/models.tsx")).ModelsView },
  usage: { title: "Usage", load: async () => (await import("./views/usage.tsx")).UsageView },
  search: { title: "Search", load: async () => (await import("./views/search.tsx")).SearchView },
  settings: { title: "Settings", load: async () => (await import("./views/settings.tsx")).SettingsView },
};

const loaded = new Cell<Readonly<Record<string, View>>>({});

/** Shown in the title of the tab, beside the number of questions that wait. */
function useTitle(title: string): void {
  const waiting = useCell(approvals).length + useCell(elicitations).length;
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title === "" ? "Rotunda" : `${title} · Rotunda`}`;
  }, [title, waiting]);
}

function Lazy({ name, id, other }: { name: string; id: string; other: string }) {
  const known = useCell(loaded)[name];
  const [problem, setProblem] = useState("");
  useTitle(views[name]?.title ?? "");
  useEffect(() => {
    if (known) return;
    views[name]?.load().then(
      (view) => loaded.set({ ...loaded.value, [name]: view }),
      (error: unknown) => setProblem(words(error)),
    );
  }, [name, known]);
  if (problem !== "") {
    return (
      <p class="problem view" role="alert">
        This view could not be loaded: {problem}. A newer version of the server may run: reload the page.
      </p>
    );
  }
  const Shown = known;
  return Shown ? <Shown key={`${id}/${other}`} id={id} other={other} /> : <p class="view quiet">Loading …</p>;
}

function Chatting({ conversation, response }: { conversation: string | null; response: string | null }) {
  const listed = useCell(conversations).find(({ id }) => id === conversation);
  useTitle(listed ? titleOf(listed) : response ? `Response ${shown(response.slice(-8))}` : "");
  // A chat that has just been begun gets its address without losing what is on the screen.
  const key = useRef({ number: 0, address: "" });
  const address = `${conversation ?? ""}/${response ?? ""}`;
  if (key.current.address !== address && !adopted.delete(address)) key.current.number++;
  key.current.address = address;
  return (
    <ChatView
      key={key.current.number}
      conversation={conversation}
      response={response}
      onAdopt={(to) => adopted.add(to)}
    />
  );
}

/** Addresses that a chat which is shown already has taken. */
const adopted = new Set<string>();

function Body(): ComponentChildren {
  const { path } = useCell(place);
  const [, name = "", id = "", other = ""] = path.split("/").map(decoded);
  if (name === "" || name === "c" || name === "r") {
    return <Chatting conversation={name === "c" ? id : null} response={name === "r" ? id : null} />;
  }
  const moved = Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  if (moved) return <Moved to={moved} name={name} />;
  if (Object.hasOwn(views, name)) return <Lazy key={name} name={name} id={id} other={other} />;
  return (
    <div class="view">
      <h1>There is nothing here</h1>
      <p>
        <Link to="/">Begin a chat</Link>
      </p>
    </div>
  );
}

/** Addresses that people try, and where that is. */
const ELSEWHERE: Record<string, string> = { profiles: "/models", help: "/" };

function Moved({ to, name }: { to: string; name: string }) {
  useEffect(() => {
    goTo(to, { replace: true });
    if (name === "help") helpOpen.set(true);
  }, [to, name]);
  return null;
}

/** A part of the address that is no text stands for nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

/** A fault of one view leaves the rest of the page as it is; going elsewhere begins anew. */
class Guard extends Component<{ children: ComponentChildren }, { fault: string }> {
  override state = { fault: "" };

  override componentDidCatch(error: unknown): void {
    this.setState({ fault: words(error) });
    const unwatch = place.subscribe(() => {
      unwatch();
      this.setState({ fault: "" });
    });
  }

  override render(): ComponentChildren {
    if (this.state.fault === "") return this.props.children;
    return (
      <p class="problem view" role="alert">
        The page has a fault here: {this.state.fault}. What runs goes on; reload the page, or go elsewhere.
      </p>
    );
  }
}

function Frame() {
  const help = useCell(helpOpen);
  const drawer = useCell(drawerOpen);
  const connected = useCell(online);
  const old = useCell(outdated);
  useEffect(() => {
    const stop = new AbortController();
    readAll().catch(() => undefined);
    followNews(stop.signal).catch(() => undefined);
    const unlisten = listenToKeys();
    return () => {
      stop.abort();
      unlisten();
    };
  }, []);
  return (
    <div class={drawer ? "frame drawer-open" : "frame"}>
      <a class="skip-link" href="#main">
        Skip to the content
      </a>
      <header class="phone-bar">
        <button
          type="button"
          class="icon-button"
          aria-label="Menu"
          aria-expanded={drawer}
          aria-controls="sidebar"
          onClick={() => drawerOpen.set(!drawer)}
        >
          <Icon name="menu" />
        </button>
        <span class="phone-name">Rotunda</span>
        <Link to="/" class="icon-button" aria-label="New chat">
          <Icon name="plus" />
        </Link>
      </header>
      <Sidebar />
      <main id="main" tabIndex={-1}>
        {!connected && (
          <p class="offline" role="status">
            The server cannot be reached. What runs there goes on; this page goes on as soon as it is back.
          </p>
        )}
        {old && (
          <p class="offline" role="status">
            The server was updated.{" "}
            <button type="button" class="link-button" onClick={() => location.reload()}>
              Reload the page
            </button>
          </p>
        )}
        <Guard>
          <Body />
        </Guard>
      </main>
      {help && <HelpSheet />}
      <Announcer />
    </div>
  );
}

export function App() {
  return useCell(session) ? <Frame /> : <SignIn />;
}
