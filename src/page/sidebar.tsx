/** Where one can go. Invariant: the same on a phone, behind a button; a closed drawer takes no focus. */
import { useEffect } from "preact/hooks";
import { askedOf } from "../util/asked.ts";
import { session } from "./api.ts";
import { useCell } from "./cell.ts";
import { dayOf } from "./format.ts";
import { Icon, type IconName, Logo } from "./icons.tsx";
import { drawerOpen, helpOpen } from "./overlays.ts";
import { Link, place } from "./router.tsx";
import { approvals, conversations, elicitations, listed, lookAgain, moreConversations } from "./shared.ts";
import { shown } from "./visible.tsx";
import type { WireConversation } from "./wire.ts";

const PLACES: { to: string; icon: IconName; name: string }[] = [
  { to: "/tree", icon: "tree", name: "Tree" },
  { to: "/runs", icon: "runs", name: "Runs" },
  { to: "/schedules", icon: "schedules", name: "Schedules" },
  { to: "/approvals", icon: "approvals", name: "Approvals" },
  { to: "/search", icon: "search", name: "Search" },
  { to: "/usage", icon: "usage", name: "Usage" },
  { to: "/models", icon: "models", name: "Models" },
  { to: "/hub", icon: "hub", name: "Hub" },
  { to: "/settings", icon: "settings", name: "Settings" },
];

/** Conversations that the server lists at once. */
const MOST = 1_000;

export function titleOf({ title, preview }: WireConversation): string {
  return shown(askedOf([title || preview || ""]) || "New chat");
}

function Conversations() {
  const list = useCell(conversations);
  const more = useCell(moreConversations);
  const asked = useCell(listed);
  const older = () => {
    listed.set(Math.min(MOST, asked * 4));
    lookAgain();
  };
  let day = "";
  return (
    <nav class="conversations" aria-label="Conversations">
      <ul>
        {list.map((conversation) => {
          const its = dayOf(conversation.updatedAt);
          const heading = its === day ? "" : its;
          day = its;
          return (
            <li key={conversation.id}>
              {heading !== "" && <span class="day">{heading}</span>}
              <Link to={`/c/${conversation.id}`} title={titleOf(conversation)}>
                {titleOf(conversation)}
              </Link>
            </li>
          );
        })}
      </ul>
      {more && asked < MOST && (
        <button type="button" class="quiet-button older" onClick={older}>
          Older
        </button>
      )}
      {more && asked >= MOST && (
        <p class="quiet">
          The newest {list.length.toLocaleString()}. Older ones: <Link to="/search">Search</Link>.
        </p>
      )}
      {list.length === 0 && <p class="quiet">What you talk about appears here.</p>}
    </nav>
  );
}

export function Sidebar() {
  const { path } = useCell(place);
  const waiting = useCell(approvals).length + useCell(elicitations).length;
  const who = useCell(session);
  useEffect(() => drawerOpen.set(false), [path]);
  const { id, kind } = currentChat(path);
  return (
    <aside id="sidebar" class="sidebar" aria-label="Sidebar">
      <div class="brand">
        <Logo />
        <span>Rotunda</span>
        <button type="button" class="icon-button" aria-label="Keys and help" onClick={() => helpOpen.set(true)}>
          <Icon name="help" />
        </button>
      </div>
      <Link to="/" class="new-chat">
        <Icon name="plus" /> New chat
      </Link>
      <nav class="places" aria-label="Views">
        <ul>
          {PLACES.map(({ to, icon, name }) => (
            <li key={to}>
              <Link
                to={to === "/tree" && id !== "" ? `/tree/${id}` : to}
                class={path.startsWith(to) || (to === "/tree" && kind === "compare") ? "here" : ""}
              >
                <Icon name={icon} />
                {name}
                {to === "/approvals" && waiting > 0 && (
                  <span class="badge">
                    {waiting}
                    <span class="visually-hidden"> waiting</span>
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <Conversations />
      <p class="who" title="Signed in as">
        {who?.name}
      </p>
      <button
        type="button"
        class="drawer-shade"
        tabIndex={-1}
        aria-hidden="true"
        onClick={() => drawerOpen.set(false)}
      />
    </aside>
  );
}

function currentChat(path: string): { kind: string; id: string } {
  const [, kind = "", id = ""] = path.split("/");
  return { kind, id: kind === "c" || kind === "r" || kind === "tree" ? id : "" };
}
