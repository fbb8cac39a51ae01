/** The frame of a view beside the chat. Invariant: one heading of the first order, and what went wrong is told below it. */
import type { ComponentChildren } from "preact";

interface Properties {
  title: string;
  /** What stands to the right of the title. */
  aside?: ComponentChildren;
  problem?: string;
  wide?: boolean;
  children: ComponentChildren;
}

export function View({ title, aside, problem = "", wide = false, children }: Properties) {
  return (
    <div class={wide ? "view view-wide" : "view"}>
      <div class="view-head">
        <h1>{title}</h1>
        {aside}
      </div>
      <Problem text={problem} />
      {children}
    </div>
  );
}

export function Problem({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <p class="problem" role="alert">
      {text}
    </p>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
