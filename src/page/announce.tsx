/**
 * What a screen reader is told.
 *
 * Invariant: an answer that streams is told in whole sentences and at most every second and a half; nothing is told
 * twice, and the drawn text itself is no live region.
 */
import { Cell, useCell } from "./cell.ts";
import { shown } from "./visible.tsx";

const spoken = new Cell<readonly { key: number; text: string }[]>([]);
let waiting: string[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;
let number = 0;
const EVERY = 1_500;
const KEPT = 6;

export function announce(text: string): void {
  if (text.trim() === "") return;
  waiting.push(text);
  if (timer !== undefined) return;
  timer = setTimeout(() => {
    timer = undefined;
    const said = waiting.join(" ");
    waiting = [];
    spoken.set([...spoken.value.slice(1 - KEPT), { key: ++number, text: shown(said) }]);
  }, EVERY);
}

export function Announcer() {
  const said = useCell(spoken);
  return (
    <div class="visually-hidden" role="log" aria-live="polite" aria-label="What happens">
      {said.map(({ key, text }) => (
        <p key={key}>{text}</p>
      ))}
    </div>
  );
}
