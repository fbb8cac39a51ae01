/**
 * OAuth store: what a person has logged in to, one server to a file: `<stateDir>/oauth/<hash>.json`.
 *
 * Format: JSON, version 1, mode 0600 in a folder 0700: one login (client, tokens, the endpoints that made them) and the
 * issuer that it is bound to; or none, the client of the last one, and what the server asked for last.
 * Invariant: the file is keyed by the server's name and URL, so that a changed configuration never sends a token
 * elsewhere; it is replaced whole or not at all; whoever changes it holds the lock, which holds between processes and
 * dies with the one that holds it.
 */
import { createHash, randomBytes } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { mkdir, open, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type {
  AuthorizationServerMetadata,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { KeyedLock } from "../util/keyed-lock.ts";
import { newProcessName, processState } from "../util/process-name.ts";
import { isObject } from "./definitions.ts";

const VERSION = 1;
/** Milliseconds: a refresh is one request, and requests end. */
const LOCK_PATIENCE = 45_000;
const LOCK_AGE = 60_000;
const LOCK_PAUSE = 25;

export interface StoredLogin {
  /** Of the authorization server: tokens and client mean nothing to another one. */
  issuer: string;
  authorizationServerUrl: string;
  metadata?: AuthorizationServerMetadata;
  client: StoredOAuthClientInformation;
  tokens: StoredOAuthTokens;
  /** The RFC 8707 resource that the tokens are for. */
  resource?: string;
  /** Milliseconds since the epoch at which the tokens came. */
  obtainedAt: number;
}

/** What a server said with a 401 or a 403: where its metadata are, which scopes it wants. */
export interface Challenge {
  resourceMetadataUrl?: string;
  scope?: string;
}

export interface OAuthFile {
  login?: StoredLogin;
  /** Of the last login, where that is no more: it need not be registered again. */
  client?: StoredOAuthClientInformation;
  challenge?: Challenge;
}

/** The same without its login; its client stays, unless that is what the authorization server does not know. */
export function withoutLogin({ login, client = login?.client }: OAuthFile, challenge: Challenge): OAuthFile {
  return { ...(client && { client }), challenge };
}

const inProcess = new KeyedLock();

export class OAuthStore {
  readonly #directory: string;
  readonly #path: string;
  #read: { at: string; file: OAuthFile } | undefined;

  constructor(stateDir: string, server: { name: string; url: string }) {
    this.#directory = join(stateDir, "oauth");
    const key = createHash("sha256")
      .update(JSON.stringify([server.name, server.url]))
      .digest("hex");
    this.#path = join(this.#directory, `${key.slice(0, 32)}.json`);
  }

  /** Changes whenever the file does; "" where there is none. */
  get mark(): string {
    const found = statSync(this.#path, { throwIfNoEntry: false });
    return found ? `${found.ino}.${found.mtimeMs}.${found.size}` : "";
  }

  /** What is there now, whoever wrote it; what cannot be read counts as nothing. */
  read(): OAuthFile {
    const at = this.mark;
    if (this.#read?.at !== at) this.#read = { at, file: at === "" ? {} : readFile(this.#path) };
    return this.#read.file;
  }

  /** Alone among all processes. What `change` returns is written; undefined leaves the file as it is. */
  async change(change: (file: OAuthFile) => Promise<OAuthFile | undefined> | OAuthFile | undefined): Promise<void> {
    await inProcess.run(this.#path, async () => {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      const unlock = await lock(`${this.#path}.lock`);
      try {
        const next = await change(readFile(this.#path));
        if (next) await this.#write(next);
      } finally {
        unlock();
      }
    });
  }

  async #write(file: OAuthFile): Promise<void> {
    if (!file.login && !file.challenge && !file.client) {
      await rm(this.#path, { force: true });
      return;
    }
    const temporary = aside(this.#path);
    const handle = await open(temporary, "wx", 0o600);
    try {
      await handle.writeFile(JSON.stringify({ version: VERSION, ...file }));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, this.#path);
  }
}

function readFile(path: string): OAuthFile {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return {};
  }
  if (!isObject(parsed) || parsed.version !== VERSION) return {};
  const { login, challenge, client } = parsed;
  const file: OAuthFile = {};
  if (isObject(client) && typeof client.client_id === "string")
    file.client = client as unknown as StoredOAuthClientInformation;
  if (isObject(challenge)) file.challenge = challenge as Challenge;
  if (isObject(login) && isObject(login.client) && isObject(login.tokens) && typeof login.issuer === "string")
    file.login = login as unknown as StoredLogin;
  return file;
}

/** The file's text names who holds it: a process that has died holds nothing. */
async function lock(path: string): Promise<() => void> {
  const name = newProcessName();
  const giveUp = Date.now() + LOCK_PATIENCE;
  const draft = aside(path);
  await writeFile(draft, name, { mode: 0o600 });
  try {
    while (!linked(draft, path)) {
      if (isAbandoned(path)) takeAway(path);
      else if (Date.now() > giveUp) throw new Error(`another process is logging in to this server (${path})`);
      else await sleep(LOCK_PAUSE);
    }
  } finally {
    rmSync(draft, { force: true });
  }
  return () => {
    if (holder(path) === name) rmSync(path, { force: true });
  };
}

/** A link and not a new file: whoever reads it finds a whole name in it. */
function linked(draft: string, path: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  }
}

function aside(path: string): string {
  return `${path}.${process.pid}.${randomBytes(4).toString("hex")}.tmp`;
}

function holder(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function isAbandoned(path: string): boolean {
  const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  if (made === undefined) return false;
  return processState(holder(path) ?? "") === "dead" || Date.now() - made > LOCK_AGE;
}

/** Two may find it abandoned, and the second one must not take the lock that the first one has made since. */
function takeAway(path: string): void {
  const away = aside(path);
  try {
    renameSync(path, away);
  } catch {
    return;
  }
  if (!isAbandoned(away)) linked(away, path);
  rmSync(away, { force: true });
}
