/** `/v1/models`: what can answer here. A profile is a model to any chat client. */
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { mayUseProfile } from "./identity.ts";
import { PROFILE_PREFIX } from "./model-choice.ts";
import type { Handler } from "./routes.ts";

interface WireModel {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  /** Tokens, where it is configured. */
  context_window?: number;
}

/** No endpoint tells when a model was made; clients want a number. */
const CREATED = 0;

async function models(context: RequestContext): Promise<WireModel[]> {
  const { app, identity } = context;
  const profiles = app.profiles().filter(({ name }) => mayUseProfile(identity, name));
  const windows = new Map(app.config.models.map(({ id, contextWindow }) => [id, contextWindow]));
  return [
    ...(await app.models()).map(({ id, origin }) => wireModel(id, origin, windows.get(id))),
    ...profiles.map(({ name }) => wireModel(`${PROFILE_PREFIX}${name}`, "rotunda")),
  ];
}

function wireModel(id: string, owner: string, window?: number): WireModel {
  const model = { id, object: "model", created: CREATED, owned_by: owner } as const;
  return window === undefined ? model : { ...model, context_window: window };
}

export const listModels: Handler = async (context) => {
  context.json(200, { object: "list", data: await models(context) });
};

export const getModel: Handler = (context) => oneModel(context, context.params.model ?? "");

export const getAgent: Handler = (context) => oneModel(context, `${PROFILE_PREFIX}${context.params.name ?? ""}`);

async function oneModel(context: RequestContext, id: string): Promise<void> {
  const found = (await models(context)).find((model) => model.id === id);
  if (!found) {
    const text = `The model '${id.slice(0, 100)}' does not exist`;
    throw new DoorError("model_not_found", text, { param: "model" });
  }
  context.json(200, found);
}
