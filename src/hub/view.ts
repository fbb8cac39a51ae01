/**
 * Hub view: the hub as doors see it.
 *
 * Invariant: whoever is turned on or off stays so (settings.json); no line of a log leaves with a secret in it.
 */
import type { HubServerView, HubView } from "../types/app.ts";
import { RotundaError } from "../types/error.ts";
import type { Hub } from "./hub-types.ts";

export interface ViewParts {
  redact(text: string): string;
  /** Writes down that a server is used or not, and makes it so. */
  setEnabled(name: string, enabled: boolean): Promise<void>;
}

export function createHubView(hub: Hub, { redact, setEnabled }: ViewParts): HubView {
  const found = (name: string): HubServerView => {
    const server = hub.servers().find((one) => one.name === name);
    if (!server) throw new RotundaError("not_found", `there is no MCP server ${name}`);
    return server;
  };
  return {
    servers: () => hub.servers(),
    connect: () => hub.connect(),
    test: async (name) => {
      await hub.test(name);
      return found(name);
    },
    restart: (name) => hub.restart(name),
    stop: (name) => hub.stop(name),
    setEnabled: async (name, enabled) => {
      found(name);
      await setEnabled(name, enabled);
    },
    logs: (name) => hub.logs(name).map(({ at, text }) => ({ at, text: redact(text) })),
    clearLogs: (name) => hub.clearLogs(name),
    beginLogin: (name, redirectUrl) => hub.beginLogin(name, redirectUrl),
    finishLogin: async (answer) => found(await hub.finishLogin(answer)),
    login: async (name, show, signal) => {
      await hub.login(name, show, signal);
      return found(name);
    },
    logout: (name) => hub.logout(name),
    gateway: () => hub.gateway(),
    close: () => hub.close(),
  };
}
