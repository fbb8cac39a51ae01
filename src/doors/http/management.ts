/**
 * SpeakMCP's routes about profiles, settings and MCP servers (parity S13–S19, S31, S34).
 *
 * Invariant: a change is on disk and in force before it is answered; no answer holds a secret.
 */
import type { HubServerView, HubView } from "../../types/app.ts";
import type { AuditAction } from "../../types/audit.ts";
import { RotundaError } from "../../types/error.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import { type ManagedProfile, type ProfileChange, steeringSettings } from "../../types/settings.ts";
import { mayAdminister } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { mayUseProfile } from "./identity.ts";
import type { Handler } from "./routes.ts";
import type { AddServer } from "./speakmcp-schemas.ts";

function audit(context: RequestContext, action: AuditAction, details: { [key: string]: Json }): Promise<void> {
  const entry = { who: context.identity.owner, door: "http", responseId: null, at: Date.now(), details };
  return context.app.store.audit({ action, ...entry });
}

/** A change of the settings. What makes the configuration invalid came with this request: that is a 400. */
async function asked<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof RotundaError && error.code === "config_invalid") throw new DoorError("usage", error.message);
    throw error;
  }
}

// ---- profiles

function shortProfile({ id, name, isDefault, createdAt, updatedAt }: ManagedProfile) {
  return { id, name, isDefault, createdAt, updatedAt };
}

function longProfile(profile: ManagedProfile) {
  const { guidelines, systemPrompt, description } = profile;
  return { ...shortProfile(profile), guidelines, systemPrompt, description };
}

/** Whoever is limited to some profiles does not get to see the others', unless it administers them. */
function maySee({ identity }: RequestContext, { id }: Pick<ManagedProfile, "id">): boolean {
  return mayUseProfile(identity, id) || identity.scopes.includes("settings");
}

export const listProfiles: Handler = async (context) => {
  const { managedProfiles } = context.app;
  const current = await managedProfiles.current();
  const list = (await managedProfiles.list()).filter((profile) => maySee(context, profile)).map(shortProfile);
  context.json(200, { profiles: list, currentProfileId: current.id });
};

export const currentProfile: Handler = async (context) => {
  const current = await context.app.managedProfiles.current();
  if (!maySee(context, current)) {
    throw new RotundaError("insufficient_scope", `this token may not use profile ${current.id}`);
  }
  context.json(200, longProfile(current));
};

export const switchProfile: Handler<JsonObject> = async (context, { profileId }) => {
  if (typeof profileId !== "string" || profileId === "") throw new DoorError("usage", "Missing or invalid profileId");
  const { id, name, isDefault } = await context.app.managedProfiles.switch(profileId);
  await audit(context, "profile", { current: id });
  context.json(200, { success: true, profile: { id, name, isDefault } });
};

function changeOf(body: JsonObject): ProfileChange {
  const change: ProfileChange = {};
  for (const key of ["name", "guidelines", "systemPrompt"] as const) {
    const value = body[key];
    if (value === undefined) continue;
    if (typeof value !== "string") throw new DoorError("usage", `Missing or invalid ${key}`, { param: key });
    change[key] = value;
  }
  for (const key of ["mcpServerConfig", "modelConfig"] as const) {
    const value = body[key];
    if (value === undefined) continue;
    if (typeof value !== "object" || Array.isArray(value))
      throw new DoorError("usage", `Missing or invalid ${key}`, { param: key });
    change[key] = value;
  }
  return change;
}

export const createProfile: Handler<JsonObject> = async (context, body) => {
  const change = changeOf(body);
  if (change.name === undefined || change.name.trim() === "")
    throw new DoorError("usage", "Missing or invalid name", { param: "name" });
  const { name } = change;
  const made = await asked(() => context.app.managedProfiles.create({ ...change, name }));
  await audit(context, "profile", { created: made.id });
  context.json(201, { success: true, ...longProfile(made), profile: longProfile(made) });
};

export const updateProfile: Handler<JsonObject> = async (context, body) => {
  const change = changeOf(body);
  const changed = await asked(() => context.app.managedProfiles.update(context.params.name ?? "", change));
  await audit(context, "profile", { changed: changed.id });
  context.json(200, { success: true, ...longProfile(changed), profile: longProfile(changed) });
};

export const deleteProfile: Handler = async (context) => {
  const { name = "" } = context.params;
  await context.app.managedProfiles.remove(name);
  await audit(context, "profile", { removed: name });
  context.json(200, { success: true });
};

export const exportProfile: Handler = async (context) => {
  context.json(200, await context.app.managedProfiles.export(context.params.name ?? ""));
};

export const importProfile: Handler<JsonObject> = async (context, body) => {
  const admin = mayAdminister(context);
  const given = body.profile ?? null;
  const { profile, skippedServers } = await asked(() => context.app.managedProfiles.import(given, { admin }));
  await audit(context, "profile", { imported: profile.id });
  context.json(201, { success: true, ...longProfile(profile), profile: longProfile(profile), skippedServers });
};

// ---- settings

export const getSettings: Handler = async (context) => {
  context.json(200, await context.app.settings.speakmcp());
};

export const patchSettings: Handler<JsonObject> = async (context, body) => {
  const steering = Object.keys(body).filter((key) => steeringSettings.includes(key));
  if (steering.length > 0 && !mayAdminister(context)) {
    throw new RotundaError("insufficient_scope", `${steering.join(", ")}: this needs the scope admin`);
  }
  const updated = await asked(() => context.app.settings.patchSpeakmcp(body));
  await audit(context, "settings", { updated });
  context.json(200, { success: true, updated });
};

// ---- MCP servers

function wireServer({ name, connected, toolCount, state, enabled, transport, error }: HubServerView) {
  return { name, connected, toolCount, state, enabled, transport, ...(error !== undefined && { error }) };
}

async function hubWith(context: RequestContext): Promise<{ hub: HubView; name: string }> {
  const { name = "" } = context.params;
  const hub = await context.app.hub();
  if (!hub?.servers().some((server) => server.name === name)) {
    throw new RotundaError("not_found", `Server '${name}' not found`);
  }
  return { hub, name };
}

export const listServers: Handler = async (context) => {
  const hub = await context.app.hub();
  context.json(200, { servers: hub?.servers().map(wireServer) ?? [] });
};

export const toggleServer: Handler<{ enabled?: unknown }> = async (context, { enabled }) => {
  if (typeof enabled !== "boolean") throw new DoorError("usage", "Missing or invalid 'enabled' boolean");
  const { hub, name } = await hubWith(context);
  await hub.setEnabled(name, enabled);
  await audit(context, "server", { server: name, enabled });
  context.json(200, { success: true, server: name, enabled });
};

export const restartServer: Handler = async (context) => {
  const { hub, name } = await hubWith(context);
  await hub.restart(name);
  await audit(context, "server", { server: name, restarted: true });
  context.json(200, { success: true, server: name });
};

export const stopServer: Handler = async (context) => {
  const { hub, name } = await hubWith(context);
  await hub.stop(name);
  await audit(context, "server", { server: name, stopped: true });
  context.json(200, { success: true, server: name });
};

export const testServer: Handler = async (context) => {
  const { hub, name } = await hubWith(context);
  const view = await hub.test(name);
  const success = view.error === undefined;
  context.json(200, { success, server: name, ...wireServer(view), ...(!success && { error: view.error }) });
};

export const serverLogs: Handler = async (context) => {
  const { hub, name } = await hubWith(context);
  const logs = hub.logs(name).map(({ at, text }) => ({ timestamp: at, message: text }));
  context.json(200, { server: name, logs });
};

export const clearLogs: Handler = async (context) => {
  const { hub, name } = await hubWith(context);
  hub.clearLogs(name);
  context.json(200, { success: true, server: name });
};

/** A server is a command that runs on this machine, or a host that is spoken to: `admin` only. */
export const addServer: Handler<AddServer> = async (context, { name, config }) => {
  const known = context.app.config.servers.some((server) => server.name === name);
  if (known) throw new DoorError("usage", `Server '${name}' exists already`, { param: "name" });
  await setServer(context, name, config as JsonObject);
  context.json(201, { success: true, server: name });
};

export const configureServer: Handler<JsonObject> = async (context, body) => {
  const { name = "" } = context.params;
  const config = body.config ?? body;
  if (typeof config !== "object" || config === null || Array.isArray(config))
    throw new DoorError("usage", "Missing or invalid config", { param: "config" });
  await setServer(context, name, config);
  context.json(200, { success: true, server: name });
};

async function setServer(context: RequestContext, name: string, config: JsonObject): Promise<void> {
  await asked(() =>
    context.app.settings.change((settings) => {
      settings.mcpServers = { ...settings.mcpServers, [name]: config };
    }),
  );
  await audit(context, "server", { server: name, configured: true });
}

export const removeServer: Handler = async (context) => {
  const { name = "" } = context.params;
  const { mcpServers = {} } = context.app.settings.read();
  if (!Object.hasOwn(mcpServers, name)) {
    const { name: found } = await hubWith(context);
    throw new DoorError("usage", `Server '${found}' stands in a configuration file: take it out there, or turn it off`);
  }
  await context.app.settings.change((settings) => {
    if (settings.mcpServers) delete settings.mcpServers[name];
  });
  await audit(context, "server", { server: name, removed: true });
  context.json(200, { success: true, server: name });
};
