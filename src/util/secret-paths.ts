/**
 * Secret paths: where a user's keys and passwords lie.
 *
 * Invariant: one list, for what a command sees and for what the file tools open.
 */
import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** Below a home directory: keys, tokens, passwords, cookies and the state of Rotunda and its siblings. */
const SECRETS: readonly string[] = [
  ...[".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".pypirc", ".git-credentials", ".pgpass"],
  ...[".my.cnf", ".vault-token", ".password-store", ".terraform.d", ".mozilla", ".polybrain.yaml", ".boto", ".s3cfg"],
  ...[
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
  ],
  ...[".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".config/git/credentials", ".config/gcloud"],
  ...[".config/rotunda", ".config/finta", ".config/app.speakmcp", ".config/gh", ".config/hub", ".config/op"],
  ...[".config/google-chrome", ".config/chromium", ".local/share/keyrings", ".local/share/speakmcp"],
  ...[".local/share/rotunda", ".local/state/rotunda", ".local/share/containers", ".mcp-auth"],
];
const SYSTEM_SECRETS = "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/ssl/private /etc/rotunda".split(" ");

/** Files and folders, absolute; they need not exist. `allHomes`: also those of other users. */
export function secretPaths(allHomes: boolean): string[] {
  const { XDG_CONFIG_HOME, XDG_STATE_HOME, ROTUNDA_HOME } = process.env;
  const homes = [homedir()];
  if (allHomes) homes.push("/root", ...namesIn("/home").map((name) => `/home/${name}`));
  const paths = homes.flatMap((home) => SECRETS.map((name) => join(home, name)));
  for (const home of homes) if (holdsToken(join(home, ".npmrc"))) paths.push(join(home, ".npmrc"));
  for (const folder of [XDG_CONFIG_HOME, XDG_STATE_HOME]) if (folder) paths.push(join(folder, "rotunda"));
  if (ROTUNDA_HOME) paths.push(ROTUNDA_HOME);
  return [...paths, ...SYSTEM_SECRETS];
}

/** Names in a folder; none where it cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** npm needs its settings, so they are hidden only where they hold a token. */
function holdsToken(path: string): boolean {
  try {
    return /_auth|_password|token/i.test(readFileSync(path, "utf8"));
  } catch {
    return false;
  }
}

let known: { home: string; paths: readonly string[] } | undefined;

/** The same of this user, canonical as far as they exist. Looked at once. */
export function ownSecretPaths(): readonly string[] {
  const home = homedir();
  if (known?.home !== home) known = { home, paths: secretPaths(false).map(real) };
  return known.paths;
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
