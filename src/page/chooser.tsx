/** Who answers next: a profile, and a model if not its own. Invariant: a choice holds for the chat that it was made in. */
import { Cell, useCell } from "./cell.ts";
import { models, profiles } from "./shared.ts";
import { shown } from "./visible.tsx";

export interface Chosen {
  /** Empty: as the server does by default. */
  profile: string;
  /** Empty: the profile's own. */
  model: string;
}

const choices = new Cell<Readonly<Record<string, Chosen>>>({});
const NONE: Chosen = { profile: "", model: "" };

export function chosenFor(name: string): Chosen {
  return choices.value[name] ?? NONE;
}

export function choose(name: string, chosen: Chosen): void {
  choices.set({ ...choices.value, [name]: chosen });
}

export function Chooser({ name }: { name: string }) {
  const chosen = useCell(choices)[name] ?? NONE;
  const known = useCell(models);
  const agents = useCell(profiles);
  return (
    <>
      <select
        class="chooser"
        aria-label="Agent"
        value={chosen.profile}
        onChange={(event) => choose(name, { ...chosen, profile: event.currentTarget.value })}
      >
        <option value="">default agent</option>
        {agents.map((id) => (
          <option key={id} value={id}>
            {shown(id)}
          </option>
        ))}
      </select>
      <select
        class="chooser"
        aria-label="Model"
        value={chosen.model}
        onChange={(event) => choose(name, { ...chosen, model: event.currentTarget.value })}
      >
        <option value="">its model</option>
        {known.map(({ id }) => (
          <option key={id} value={id}>
            {shown(id)}
          </option>
        ))}
      </select>
    </>
  );
}
