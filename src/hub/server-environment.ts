/** Server environment: what is started or reached, what its process is given, and what of it must not be shown. */
import type { ServerConfig } from "../types/config.ts";
import { createRedactor } from "../util/secrets.ts";
import type { HubEnvironment } from "./hub-types.ts";
import type { OAuthAccount } from "./oauth-account.ts";
import type { SessionTarget } from "./session.ts";

/** Never a key of ours: names that say where a person is and what their terminal can do. */
const INHERITED = ["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/** Certificates and proxies of this machine's network, without which nothing outside may be reached. */
const NETWORK = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"];
const PROXY = /^(?:https?|all|no)_proxy$/i;

/** Never a proxy's user or password. */
function isInherited(name: string, value: string): boolean {
  if (PROXY.test(name)) return !value.includes("@");
  return INHERITED.includes(name) || NETWORK.includes(name) || name.startsWith("LC_");
}

/** The allowed part of our own environment with the configured variables over it. */
function serverEnvironment(configured: Readonly<Record<string, string>>): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value = ""] of Object.entries(process.env)) {
    // A value that begins with "()" is an exported shell function: code.
    if (isInherited(name, value) && !value.startsWith("()")) environment[name] = value;
  }
  return { ...environment, ...configured };
}

/** Where a session of the server leads. Throws where the configuration does not say. */
export function sessionTarget(
  config: ServerConfig,
  { launch, workspace }: HubEnvironment,
  account?: OAuthAccount,
): SessionTarget {
  if (config.transport === "http") {
    if (!config.url) throw new Error("the server has no url");
    return { endpoint: { url: config.url, headers: config.headers ?? {}, account } };
  }
  const { command } = config;
  if (!command) throw new Error("the server has no command");
  const request = () => ({
    server: config.name,
    command,
    args: [...(config.args ?? [])],
    env: serverEnvironment(config.env ?? {}),
    cwd: config.cwd ?? workspace,
  });
  return { process: () => launch(request()) };
}

const SECRET_NAME = /KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL/i;

/** Replaces the server's own secrets (variables with such a name, all header values) in a text. */
export function createScrubber(config: ServerConfig): (text: string) => string {
  const variables = Object.entries(config.env ?? {}).filter(([name]) => SECRET_NAME.test(name));
  const headers = Object.values(config.headers ?? {});
  const bare = headers.map((value) => value.replace(/^(Bearer|Basic|Token)\s+/i, ""));
  return createRedactor([...variables.map(([, value]) => value), ...headers, ...bare]);
}
