/**
 * OAuth store: what a person has logged in to, one server to a file: `<stateDir>/oauth/<hash>.json`.
 *
 * Format: JSON, version 1, mode 0600 in a folder 0700: one login (client, tokens, the endpoints that made them) and the
 * issuer that it is bound to; or none, the client of the last one, and what the server asked for last.
 * Invariant: the file is keyed by the server's name and URL, so that a changed configuration never sends a token
 * elsewhere; it is replaced whole or not at all; whoever changes it holds the lock, which holds between processes and
 * dies with the one that holds it.
 */
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type {
  AuthorizationServerMetadata,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { aside, lockFile } from "../util/file-lock.ts";
import { KeyedLock } from "../util/keyed-lock.ts";
import { makeDirectory } from "../util/make-directory.ts";
import { isObject } from "./definitions.ts";

const VERSION = 1;
/** Milliseconds: a refresh is one request, and requests end. */
const LOCK_PATIENCE = 45_000;
const LOCK_AGE = 60_000;

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
      makeDirectory(this.#directory, 0o700);
      const unlock = await lockFile(`${this.#path}.lock`, { patience: LOCK_PATIENCE, age: LOCK_AGE });
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
