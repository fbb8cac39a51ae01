/**
 * Choice: who answers, and where in the tree.
 *
 * Invariant: what belongs to another owner is as unknown as what does not exist; a profile that a token may not use is
 * refused before it is looked up.
 */
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { McpCaller } from "../../types/mcp.ts";
import type { Conversation, FullResponse, ResponseNode } from "../../types/response.ts";

export interface Choice {
  profile: string;
  /** Absent: the profile's own. */
  model?: string;
  /** Somebody asked for a model and not for an agent of ours. */
  plain: boolean;
}

const PROFILE = "profile/";
/** What answers where nothing is configured: as the bridge did. */
const AGENT = "claude-code";

/** `name`: a model, an agent or a profile; undefined: what is configured. Throws `model_not_found`, `insufficient_scope`. */
export async function choose(app: App, caller: McpCaller, name: string | undefined): Promise<Choice> {
  const { config } = app;
  const wanted = name ?? config.mcp.askModel;
  const models = await app.models();
  const named = wanted?.startsWith(PROFILE) ? wanted.slice(PROFILE.length) : undefined;
  const isModel = wanted !== undefined && models.some(({ id }) => id === wanted);
  const isProfile = named ?? (isModel ? undefined : app.profiles().find((one) => one.name === wanted)?.name);
  const profile = isProfile ?? config.mcp.profile ?? config.server.profile ?? config.defaultProfile;
  if (!caller.mayUseProfile(profile)) {
    throw new RotundaError("insufficient_scope", "this token may not use this profile");
  }
  if (isProfile !== undefined) return { profile, plain: false };
  if (wanted !== undefined) return { profile, model: wanted, plain: true };
  const own = (await app.profile(profile)).model;
  if (own !== undefined) return { profile, plain: false };
  const first = models.find((one) => one.default) ?? models[0];
  const agent = first?.origin === "demo" ? models.find(({ id }) => id === AGENT) : undefined;
  return { profile, ...(agent && { model: agent.id }), plain: false };
}

function sees(caller: McpCaller, owner: string): boolean {
  return caller.local || caller.owner === owner;
}

/** By its id; whoever holds the machine may name it by a part that is like no other. Throws `not_found`, `ambiguous_id`. */
export async function nodeOf(app: App, caller: McpCaller, id: string): Promise<ResponseNode> {
  const whole = caller.local ? await app.engine.resolveId(id, "response").catch(notFound("response", id)) : id;
  const node = await app.store.node(whole);
  if (!node || !sees(caller, node.owner)) return notFound("response", id)(undefined);
  return node;
}

export async function responseOf(app: App, caller: McpCaller, id: string): Promise<FullResponse> {
  return app.engine.get((await nodeOf(app, caller, id)).id);
}

/** By its id or its name. Throws `not_found`. */
export async function conversationOf(app: App, caller: McpCaller, id: string): Promise<Conversation> {
  const direct = await app.store.conversation(id, caller.owner);
  const whole =
    direct || !caller.local
      ? undefined
      : await app.engine.resolveId(id, "conversation").catch(notFound("conversation", id));
  const conversation = direct ?? (whole === undefined ? undefined : await app.store.conversation(whole, caller.owner));
  if (!conversation || !sees(caller, conversation.owner)) return notFound("conversation", id)(undefined);
  return conversation;
}

function notFound(what: string, id: string): (error: unknown) => never {
  return (error) => {
    if (error instanceof RotundaError && error.code === "ambiguous_id") throw error;
    const shown = id.slice(0, 200);
    throw new RotundaError("not_found", `${what === "response" ? "Response" : "Conversation"} not found: ${shown}`);
  };
}
