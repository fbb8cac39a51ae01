/**
 * What a person chooses in a session: who answers (profile), with which model, and what needs no question.
 *
 * Invariant: a choice is one of those that were offered; it holds from the next prompt on.
 */
import type {
  SessionConfigOption,
  SessionConfigSelectOption,
  SessionModeState,
} from "@agentclientprotocol/sdk/unstable";
import type { App } from "../../types/app.ts";
import type { PermissionMode, ResponseNode } from "../../types/response.ts";
import { invalidParams } from "./errors.ts";

export interface Choices {
  profile: string;
  /** undefined: the profile's, or the default one. */
  model?: string;
  /** undefined: what the profile says. */
  permissions?: PermissionMode;
}

const AS_PROFILE = "profile";

const PERMISSIONS: readonly { value: string; name: string; description: string }[] = [
  { value: AS_PROFILE, name: "As the profile says", description: "The mode of the profile" },
  { value: "ask", name: "Ask", description: "What no rule allows is asked about" },
  { value: "accept-edits", name: "Accept edits", description: "Changes of files in the workspace are not asked about" },
  { value: "plan", name: "Plan", description: "Nothing is changed" },
  { value: "auto", name: "Auto", description: "Nothing is asked about but what a rule asks about" },
];

/** Of a session that begins. `wanted` comes from the command line. */
export async function firstChoices(app: App, wanted: Partial<Choices>): Promise<Choices> {
  const { name: profile } = await app.profile(wanted.profile);
  return { ...wanted, profile };
}

/** Of a session that goes on: who answered last answers again, as far as they are still there. */
export async function choicesAfter(app: App, head: ResponseNode | undefined, first: Choices): Promise<Choices> {
  if (!head) return first;
  const profile = app.profiles().some(({ name }) => name === head.profile) ? head.profile : first.profile;
  const models = await app.models();
  const usual = await modelOf(app, { profile });
  const model = head.model !== usual && models.some(({ id }) => id === head.model) ? { model: head.model } : {};
  const { mode } = head.settings;
  return { ...first, profile, ...model, ...(mode !== undefined && { permissions: mode }) };
}

/** The model that answers. */
export async function modelOf(app: App, { profile, model }: Choices): Promise<string> {
  const id = model ?? (await app.profile(profile)).model;
  if (id !== undefined) return id;
  const models = await app.models();
  return (models.find((one) => one.default) ?? models[0])?.id ?? "";
}

export function modesOf(app: App, { profile }: Choices): SessionModeState {
  const availableModes = app.profiles().map(({ name, description }) => ({ id: name, name, description }));
  return { currentModeId: profile, availableModes };
}

export async function optionsOf(app: App, choices: Choices): Promise<SessionConfigOption[]> {
  const profiles = app.profiles().map(({ name, description }) => ({ value: name, name, description }));
  const models: SessionConfigSelectOption[] = (await app.models()).map(({ id, model, baseUrl }) => {
    const description = [model === id ? "" : model, baseUrl ?? ""].filter((text) => text !== "").join(", ");
    return { value: id, name: id, ...(description !== "" && { description }) };
  });
  const model = await modelOf(app, choices);
  if (!models.some(({ value }) => value === model)) models.unshift({ value: model, name: model });
  const permissions = choices.permissions ?? AS_PROFILE;
  return [
    {
      type: "select",
      id: "profile",
      name: "Profile",
      category: "mode",
      currentValue: choices.profile,
      options: profiles,
    },
    { type: "select", id: "model", name: "Model", category: "model", currentValue: model, options: models },
    {
      type: "select",
      id: "permissions",
      name: "Permissions",
      description: "What needs a question",
      category: "_permissions",
      currentValue: permissions,
      options: [...PERMISSIONS],
    },
  ];
}

/** The choices with one of them changed. Throws an error of JSON-RPC where that is none of those offered. */
export async function choose(app: App, choices: Choices, id: string, value: string | boolean): Promise<Choices> {
  const offered = (await optionsOf(app, choices)).find((option) => option.id === id);
  if (offered?.type !== "select") throw invalidParams(`there is no option ${id.slice(0, 100)}`);
  const values = offered.options.flatMap((option) => ("value" in option ? [option.value] : []));
  if (typeof value !== "string" || !values.includes(value))
    throw invalidParams(`${id} cannot be ${String(value).slice(0, 100)}; there are: ${values.join(", ")}`);
  if (id === "profile") return { ...choices, profile: value };
  if (id === "model") return { ...choices, model: value };
  const { permissions: _before, ...rest } = choices;
  return value === AS_PROFILE ? rest : { ...rest, permissions: value as PermissionMode };
}
