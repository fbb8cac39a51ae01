/** Model choice: `profile/NAME` is an agent, anything else the id of a model that the default profile answers with. */
import { RotundaError } from "../../types/error.ts";
import type { Profile } from "../../types/profile.ts";
import type { RequestContext } from "./context.ts";
import { mayUseProfile } from "./identity.ts";

export const PROFILE_PREFIX = "profile/";

export interface ModelChoice {
  profile: Profile;
  /** Absent: the profile's own. */
  model?: string;
  /** The client named the agent, so the agent's own instructions hold beside what the client says. */
  agent: boolean;
}

/** `header` is `x-rotunda-profile`. Throws `profile_not_found`, `insufficient_scope`. */
export async function chooseModel(context: RequestContext, name: string | null | undefined): Promise<ModelChoice> {
  const { app, identity } = context;
  const header = context.request.headers["x-rotunda-profile"];
  const named = name?.startsWith(PROFILE_PREFIX) ? name.slice(PROFILE_PREFIX.length) : undefined;
  const wanted = named ?? (typeof header === "string" ? header : app.config.server.profile);
  const refused = () => {
    const own = identity.token?.profiles?.join(", ") ?? "";
    return new RotundaError("insufficient_scope", `this token may not use this profile: name one of its own (${own})`, {
      remedy: `Send "model": "${PROFILE_PREFIX}NAME" with one of them.`,
    });
  };
  // What is not on its list is refused before it is looked up: whether there is one by that name is not its affair.
  if (wanted !== undefined && !mayUseProfile(identity, wanted)) throw refused();
  const profile = await app.profile(wanted);
  if (!mayUseProfile(identity, profile.name)) throw refused();
  return { profile, agent: named !== undefined, ...(named === undefined && name ? { model: name } : {}) };
}
