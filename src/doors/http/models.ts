/** `/v1/models`: what can answer here. A profile is a model to any chat client. */
import { RotundaError } from "../../types/error.ts";
import type { ModelPrice } from "../../types/model.ts";
import type { RequestContext } from "./context.ts";
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
  /** It answers where nobody is named; of profiles as of models. */
  default?: true;
  /** US dollars for a million tokens, where they are configured. */
  price?: ModelPrice;
  /** Of a profile: the model that it answers with. */
  answers_with?: string;
  /** Of a model, for whoever may see the settings: the host of its endpoint. */
  endpoint?: string;
}

/** No endpoint tells when a model was made; clients want a number. */
const CREATED = 0;

async function models(context: RequestContext): Promise<WireModel[]> {
  const { app, identity } = context;
  const known = await app.models();
  const usual = known.find((model) => model.default) ?? known[0];
  const configured = new Map(app.config.models.map((model) => [model.id, model]));
  const seesSettings = identity.local || identity.scopes.includes("settings");
  const profiles = app.profiles().filter(({ name }) => mayUseProfile(identity, name));
  const { name: first } = await app.profile();
  return [
    ...known.map(({ id, origin, baseUrl }): WireModel => {
      const { contextWindow, price } = configured.get(id) ?? {};
      const host = seesSettings && baseUrl !== null && URL.canParse(baseUrl) ? new URL(baseUrl).host : undefined;
      return {
        ...base(id, origin),
        ...(contextWindow !== undefined && { context_window: contextWindow }),
        ...(id === usual?.id && { default: true }),
        ...(price && { price }),
        ...(host !== undefined && { endpoint: host }),
      };
    }),
    ...(await Promise.all(
      profiles.map(async ({ name }): Promise<WireModel> => {
        const model = (await app.profile(name)).model ?? usual?.id;
        return {
          ...base(`${PROFILE_PREFIX}${name}`, "rotunda"),
          ...(name === first && { default: true }),
          ...(model !== undefined && { answers_with: model }),
        };
      }),
    )),
  ];
}

function base(id: string, owner: string) {
  return { id, object: "model", created: CREATED, owned_by: owner } as const;
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
    throw new RotundaError("model_not_found", text);
  }
  context.json(200, found);
}
