/**
 * Keys that work everywhere.
 *
 * Invariant: a key without a modifier does nothing while somebody types, or has just chosen what is answered by typing
 * (`data-typing`); a sequence begins with g and waits a second.
 */
import { drawerOpen, helpOpen } from "./overlays.ts";
import { goTo, place } from "./router.tsx";

export interface Shortcut {
  /** Keys one after the other, with a space between. */
  keys: string;
  what: string;
  run?: () => void;
}

function treeOfHere(): string {
  const [, kind = "", id = ""] = place.value.path.split("/");
  return (kind === "c" || kind === "r") && id !== "" ? `/tree/${id}` : "/tree";
}

function focus(selector: string): void {
  const found = document.querySelector<HTMLElement>(selector);
  found?.focus();
}

export const shortcuts: readonly Shortcut[] = [
  { keys: "n", what: "New chat", run: () => goTo("/") },
  { keys: "i", what: "Write: to the input", run: () => focus("#composer") },
  { keys: "/", what: "Search everything that was said", run: () => goTo("/search") },
  { keys: "a", what: "To the first question that waits here", run: () => focus(".approval button") },
  { keys: "[", what: "Previous turn", run: () => step(-1) },
  { keys: "]", what: "Next turn", run: () => step(1) },
  { keys: "g t", what: "The tree of this chat", run: () => goTo(treeOfHere()) },
  { keys: "g r", what: "Runs", run: () => goTo("/runs") },
  { keys: "g s", what: "Schedules", run: () => goTo("/schedules") },
  { keys: "g a", what: "Approvals", run: () => goTo("/approvals") },
  { keys: "g u", what: "Usage", run: () => goTo("/usage") },
  { keys: "g m", what: "Models and profiles", run: () => goTo("/models") },
  { keys: "g h", what: "Hub", run: () => goTo("/hub") },
  { keys: "g ,", what: "Settings", run: () => goTo("/settings") },
  { keys: "?", what: "These keys", run: () => helpOpen.set(true) },
  { keys: "Enter", what: "In the input: send; while an answer runs: steer it" },
  { keys: "Shift+Enter", what: "In the input: a new line" },
  { keys: "Alt+Enter", what: "In the input, while an answer runs: queue it behind" },
  { keys: "Escape", what: "In the input, while an answer runs: stop it" },
];

/** Moves the focus from turn to turn. */
function step(by: number): void {
  const turns = [...document.querySelectorAll<HTMLElement>("article.turn")];
  const at = turns.findIndex((turn) => turn.contains(document.activeElement));
  turns[at < 0 ? turns.length - 1 : Math.max(0, Math.min(turns.length - 1, at + by))]?.focus();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest("input,textarea,select,[contenteditable],dialog,[data-typing]") !== null
  );
}

const WAIT = 1_000;

/** Returns what ends it. */
export function listenToKeys(): () => void {
  let begun = Number.NEGATIVE_INFINITY;
  const hear = (event: KeyboardEvent) => {
    if (event.key === "Escape" && drawerOpen.value) drawerOpen.set(false);
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    const keys = event.timeStamp - begun < WAIT ? `g ${event.key}` : event.key;
    begun = keys === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
    const found = shortcuts.find((shortcut) => shortcut.keys === keys);
    if (!found?.run) return;
    event.preventDefault();
    found.run();
  };
  addEventListener("keydown", hear);
  return () => removeEventListener("keydown", hear);
}
