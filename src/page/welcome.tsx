/** An empty chat. Invariant: what it offers works with every model, the demo model too. */
import { useCell } from "./cell.ts";
import { Logo } from "./icons.tsx";
import { models } from "./shared.ts";

const IDEAS = ["What is in this folder?", "Find TODO in the code", "Make a plan, then write hello to notes.txt"];

export function Welcome({ onPick }: { onPick: (text: string) => void }) {
  const known = useCell(models);
  const demo = known.length > 0 && known.every(({ owner }) => owner === "demo");
  return (
    <div class="welcome">
      <Logo />
      <h1>New chat</h1>
      {demo && (
        <p class="notice">
          No language model is configured: the <strong>demo model</strong> answers, by fixed rules, on your real files.{" "}
          <code>rotunda doctor</code> says how to change that.
        </p>
      )}
      <ul class="ideas">
        {IDEAS.map((idea) => (
          <li key={idea}>
            <button type="button" onClick={() => onPick(idea)}>
              {idea}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
