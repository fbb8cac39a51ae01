/**
 * Where the page is: the address, and nothing beside it.
 *
 * Invariant: what is shown follows from the address, so a reload, a bookmark and the back button show the same.
 */
import type { ComponentChildren } from "preact";
import { Cell, useCell } from "./cell.ts";

export interface Place {
  path: string;
  query: URLSearchParams;
}

function here(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export const place = new Cell<Place>(here());

export function listenToAddress(): void {
  addEventListener("popstate", () => place.set(here()));
}

export function goTo(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  const before = place.value.path;
  place.set(here());
  if (before !== location.pathname) document.getElementById("main")?.focus({ preventScroll: true });
}

interface LinkProps {
  to: string;
  class?: string;
  title?: string;
  "aria-label"?: string;
  children?: ComponentChildren;
}

/** A link within the page; a click with a modifier stays the browser's. */
export function Link({ to, children, ...rest }: LinkProps) {
  const { path } = useCell(place);
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    goTo(to);
  };
  return (
    <a {...rest} href={to} onClick={follow} {...(path === to && { "aria-current": "page" as const })}>
      {children}
    </a>
  );
}
