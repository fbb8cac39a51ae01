/**
 * Commands about logins to MCP servers: hub login, hub logout.
 *
 * Invariant: the address is always printed, and stdout has nothing but the result; a pasted answer counts only for the
 * login that was begun here.
 */
import type { HubView, LoginAnswer, LoginStart } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import { CALLBACK_PATH } from "../../util/callback-page.ts";
import { counted, visible } from "../../util/text.ts";
import { type CommandContext, interruptible } from "./context.ts";
import { openAddress } from "./open-address.ts";

/** Nothing listens there: what counts is the address that the browser ends at. */
const PASTE_PORT = 33_418;
const MAX_PASTED = 16_384;

export async function hubLogin(context: CommandContext, name: string, flags: { paste?: boolean }): Promise<number> {
  const app = await context.app();
  const hub = await app.hub();
  if (!hub) throw new RotundaError("not_found", "no MCP server is configured");
  const interrupt = interruptible(app);
  try {
    const paste = flags.paste === true || !context.interactive;
    const { oauth } = app.config.servers.find((server) => server.name === name) ?? {};
    const port = (oauth === false ? undefined : oauth?.redirectPort) ?? PASTE_PORT;
    const show = (start: LoginStart) => showAddress(context, name, start);
    const server = paste
      ? await pasted(context, hub, name, port, interrupt.signal)
      : await hub.login(name, show, interrupt.signal);
    const { state, toolCount, error } = server;
    if (state === "needs_login" || state === "failed") {
      context.streams.err(`Logged in to ${visible(name)}, and it does not work: ${visible(error ?? state)}\n`);
      return 1;
    }
    context.streams.out(`Logged in to ${visible(name)}: ${counted(toolCount, "tool")}\n`);
    return 0;
  } finally {
    interrupt.dispose();
  }
}

function showAddress({ streams }: CommandContext, name: string, { authorizationUrl }: LoginStart): void {
  streams.err(`Log in here:\n\n  ${visible(authorizationUrl)}\n\n`);
  openAddress(authorizationUrl);
  streams.err(`Waiting for the browser (no browser here? rotunda hub login ${visible(name)} --paste) …\n`);
}

async function pasted(context: CommandContext, hub: HubView, name: string, port: number, signal: AbortSignal) {
  const start = await hub.beginLogin(name, `http://127.0.0.1:${port}${CALLBACK_PATH}`);
  context.streams.err(
    `Open this address in any browser and log in:\n\n  ${visible(start.authorizationUrl)}\n\nThe browser ends at a page that cannot be shown. Paste its address here:\n`,
  );
  return hub.finishLogin({ ...answerOf(await readLine(signal), start.state), server: name });
}

async function readLine(signal: AbortSignal): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin });
  lines.on("SIGINT", () => process.emit("SIGINT"));
  try {
    const line = await new Promise<string>((resolve, reject) => {
      lines.once("line", resolve);
      lines.once("close", () => reject(new RotundaError("usage", "nothing was pasted")));
      signal.addEventListener("abort", () => reject(new RotundaError("cancelled", "the login was given up")));
    });
    return line.trim().slice(0, MAX_PASTED);
  } finally {
    lines.close();
    process.stdin.destroy();
  }
}

/** The whole address, what stands behind its question mark, or the code alone. */
function answerOf(text: string, state: string): LoginAnswer {
  const query = URL.canParse(text) ? new URL(text).search : /[=&]/.test(text) ? text : "";
  if (query === "") return { state, code: text };
  const parameters = new URLSearchParams(query);
  const given = parameters.get("state");
  if (given !== null && given !== state) {
    throw new RotundaError("usage", "this address belongs to another login: begin again");
  }
  const answer: LoginAnswer = { state };
  for (const part of ["code", "iss", "error"] as const) {
    const value = parameters.get(part);
    if (value !== null) answer[part] = value;
  }
  return answer;
}

export async function hubLogout(context: CommandContext, name: string): Promise<number> {
  const hub = await (await context.app()).hub();
  if (!hub) throw new RotundaError("not_found", "no MCP server is configured");
  const { revoked } = await hub.logout(name);
  context.streams.out(`Logged out of ${visible(name)}\n`);
  if (!revoked) context.streams.err("The server was not told: it has no way for that, or there was no login.\n");
  return 0;
}
