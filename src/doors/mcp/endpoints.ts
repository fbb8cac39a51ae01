/**
 * The servers of MCP behind the HTTP door, each made when it is first asked for.
 *
 * Invariant: one endpoint for each name; what is signed (sessions, states) is signed with a key of this state directory,
 * so every process of it can read what another has signed.
 */
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { McpCaller, McpEndpoints, McpRequest } from "../../types/mcp.ts";
import { Endpoint } from "./endpoint.ts";
import type { GatewayEndpoint } from "./gateway.ts";
import { rotundaServer } from "./rotunda-server.ts";
import { codecOf, signingKey } from "./signing.ts";

export interface EndpointsOptions {
  app: App;
  version: string;
  onerror?: (error: Error) => void;
}

export function createMcpEndpoints({ app, version, onerror }: EndpointsOptions): McpEndpoints {
  const key = signingKey(app.stateDirectory);
  const made = new Map<string, Promise<Endpoint>>();
  const leaving = new AbortController();

  const rotunda = () =>
    Endpoint.create({
      key,
      ...(onerror && { onerror }),
      factory: ({ era, caller }) =>
        rotundaServer({
          caller,
          era,
          codec: codecOf(() => key, caller),
          version,
          oldNames: app.config.mcp.oldNames,
          leaving: leaving.signal,
        }),
    });

  const gateways = new Map<string, Promise<GatewayEndpoint>>();
  const gateway = async (name: string, caller: McpCaller) => {
    const profile = name === "hub" ? undefined : name.slice("hub/".length);
    const names = (await app.profiles()).map((one) => one.name);
    if (profile !== undefined && !names.includes(profile)) return undefined;
    // Whoever may use some profiles alone sees what those may use.
    if (!(profile === undefined ? names : [profile]).every((one) => caller.mayUseProfile(one)))
      throw new RotundaError(
        "insufficient_scope",
        "This token may use some profiles only: /mcp/hub/PROFILE is theirs.",
      );
    let made = gateways.get(name);
    if (!made) {
      const { GatewayEndpoint: GatewayHere } = await import("./gateway.ts");
      made = gateways.get(name) ?? GatewayHere.create({ app, profile, version, key, ...(onerror && { onerror }) });
      gateways.set(name, made);
    }
    return made;
  };

  return {
    async answer(name: string, request: McpRequest) {
      if (name !== "rotunda") return (await gateway(name, request.caller))?.answer(request);
      const endpoint = made.get(name) ?? rotunda();
      made.set(name, endpoint);
      return (await endpoint).answer(request);
    },
    leave: () => leaving.abort(),
    async close() {
      leaving.abort();
      for (const endpoint of [...made.values(), ...gateways.values()]) await (await endpoint).close();
    },
  };
}
