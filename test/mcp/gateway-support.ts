/** A gateway on a real port, in front of real servers, and clients of both generations. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { createHttpDoor } from "../../src/doors/http/server.ts";
import { createMcpEndpoints } from "../../src/doors/mcp/endpoints.ts";
import type { App } from "../../src/types/app.ts";
import type { Config, ServerConfig } from "../../src/types/config.ts";
import type { Scope } from "../../src/types/token.ts";
import { ensureLocalToken } from "../../src/util/local-token.ts";
import { newToken } from "../../src/util/token.ts";
import { later, temporaryFolder } from "../support.ts";

export type Era = "legacy" | "auto";

export interface TestGateway {
  app: App;
  url: string;
  /** The local one. */
  token: string;
  folder: string;
  tokenOf(name: string, scopes: Scope[], profiles?: string[]): Promise<string>;
  /** Lines of a server's journal. */
  journal(server: string): string[];
}

export function stdio(folder: string, name: string, more: Partial<ServerConfig> = {}): ServerConfig {
  const script = join(import.meta.dirname, "../fixtures/mcp/gateway.ts");
  const args = [script, name, join(folder, `${name}.journal`)];
  return { name, transport: "stdio", command: process.execPath, args, disabled: false, origin: "test", ...more };
}

export function http(url: string, name = "remote"): ServerConfig {
  return { name, transport: "http", url, disabled: false, origin: "test" };
}

export async function startGateway(
  servers: (folder: string) => ServerConfig[],
  change: (config: Config) => void = () => undefined,
): Promise<TestGateway> {
  const folder = temporaryFolder();
  const environment = { PATH: process.env.PATH ?? "", HOME: folder, ROTUNDA_HOME: join(folder, "state") };
  const config = await loadConfig({ workspace: folder, environment });
  config.servers.push(...servers(folder));
  change(config);
  const app = await createApp({ config, workspace: folder, environment });
  const endpoints = createMcpEndpoints({ app, version: "1" });
  const door = createHttpDoor(app, { port: 0, accessLog: false, mcp: async () => endpoints });
  const url = await door.listen();
  later(async () => {
    await endpoints.close();
    await door.close({ seconds: 0 });
    await app.close();
  });
  return {
    app,
    url,
    folder,
    token: ensureLocalToken(app.stateDirectory),
    async tokenOf(name, scopes, profiles) {
      const { token, text } = newToken({ name, scopes, ...(profiles && { profiles }) }, Date.now());
      await app.store.saveToken(token);
      return text;
    },
    journal(server) {
      try {
        return readFileSync(join(folder, `${server}.journal`), "utf8")
          .trimEnd()
          .split("\n");
      } catch {
        return [];
      }
    },
  };
}

export interface ConnectOptions {
  era?: Era;
  token?: string;
  path?: string;
  /** Answers questions; without it the client says that it cannot be asked. */
  onQuestion?: (message: string) => Record<string, string> | undefined;
}

export async function connect(gateway: TestGateway, options: ConnectOptions = {}): Promise<Client> {
  const { era = "auto", token = gateway.token, path = "/mcp/hub", onQuestion } = options;
  const client = new Client(
    { name: "test", version: "1" },
    { capabilities: onQuestion ? { elicitation: { form: {} } } : {}, versionNegotiation: { mode: era } },
  );
  if (onQuestion) {
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      const content = onQuestion(String(params.message));
      return content ? { action: "accept", content } : { action: "decline" };
    });
  }
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(path, gateway.url), { requestInit }));
  later(() => client.close());
  return client;
}

export async function textOf(
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
  options: Parameters<Client["callTool"]>[1] = {},
): Promise<string> {
  const { content, isError } = await client.callTool({ name, arguments: args }, options);
  const texts = (content as { text?: string }[]).map(({ text }) => text ?? "").join("\n");
  return isError === true ? `ERROR ${texts}` : texts;
}

export async function until(check: () => boolean | Promise<boolean>, seconds = 10): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!(await check())) {
    if (Date.now() > end) throw new Error("it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
