/** Clients of the MCP door, of both generations, over HTTP and stdio. */
import { Client, type ElicitResult, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { later } from "../support.ts";

export type Era = "legacy" | "auto";

export interface ClientOptions {
  era?: Era;
  token?: string;
  path?: string;
  /** Answers questions; without it the client says that it cannot be asked. */
  onQuestion?: (message: string) => ElicitResult;
}

export async function connectHttp(url: string, options: ClientOptions = {}): Promise<Client> {
  const { era = "auto", token, path = "/mcp" } = options;
  const client = newClient(options, era);
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(path, url), { requestInit: { headers } }));
  later(() => client.close());
  return client;
}

export function newClient({ onQuestion }: ClientOptions, era: Era): Client {
  const client = new Client(
    { name: "test", version: "1" },
    {
      capabilities: onQuestion ? { elicitation: { form: {} } } : {},
      versionNegotiation: { mode: era },
    },
  );
  if (onQuestion) {
    client.setRequestHandler("elicitation/create", async (request) => onQuestion(String(request.params.message)));
  }
  return client;
}

export interface Called {
  text: string;
  isError: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the tool says
  structured: any;
}

export async function call(
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
  options: Parameters<Client["callTool"]>[1] = {},
): Promise<Called> {
  const result = await client.callTool({ name, arguments: args }, options);
  const [first] = result.content as { type: string; text: string }[];
  return { text: first?.text ?? "", isError: result.isError === true, structured: result.structuredContent };
}

export function idIn(text: string): string {
  return /Response ID: (\S+)/.exec(text)?.[1] ?? "";
}
