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
  const usual = agents.find((agent) => agent.usual);
  // What answers where no model is chosen.
  const its = (chosen.profile === "" ? usual : agents.find(({ id }) => id === chosen.profile))?.model ?? "";
  return (
    <>
      <select
        class="chooser"
        aria-label="Agent"
        title="Who answers; at first the default profile"
        value={chosen.profile}
        onChange={(event) => choose(name, { ...chosen, profile: event.currentTarget.value })}
      >
        <option value="">{usual ? shown(usual.id) : "default agent"}</option>
        {agents.map(
          ({ id }) =>
            (id !== usual?.id || id === chosen.profile) && (
              <option key={id} value={id}>
                {shown(id)}
              </option>
            ),
        )}
      </select>
      <select
        class="chooser"
        aria-label="Model"
        title="With which model; at first the agent's own"
        value={chosen.model}
        onChange={(event) => choose(name, { ...chosen, model: event.currentTarget.value })}
      >
        <option value="">{its === "" ? "its model" : shown(its)}</option>
        {known.map(
          ({ id }) =>
            (id !== its || id === chosen.model) && (
              <option key={id} value={id}>
                {shown(id)}
              </option>
            ),
        )}
      </select>
    </>
  );
}
