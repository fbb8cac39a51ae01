/**
 * Connections to Postgres: their settings, what a text or a number is in them, and Postgres's errors as ours.
 *
 * Invariant: a commit on any connection of ours is on the server's disk before it is reported (`synchronous_commit`);
 * no statement, lock or idle transaction lasts without end; the password is in no error.
 */
import type { ClientBase, ClientConfig } from "pg";
import { RotundaError } from "../types/error.ts";
import { withoutPassword } from "../util/mask.ts";

/** Milliseconds. A stalled process's locks are gone well before its leases are over. */
const IDLE_IN_TRANSACTION = 5_000;
const STATEMENT = 30_000;
const LOCK = 10_000;
const CONNECT = 10_000;
/** Without an answer for so long, the connection is given up: the server or the way to it is gone. */
const SILENCE = 40_000;

/** The oldest server whose functions suffice (`pg_current_xact_id`): 13. */
const OLDEST = 130_000;

const SETTINGS = [
  "synchronous_commit = on",
  `statement_timeout = ${STATEMENT}`,
  `lock_timeout = ${LOCK}`,
  `idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION}`,
  "client_encoding = 'UTF8'",
];

export function connectionOf(url: string, types: NonNullable<ClientConfig["types"]>): ClientConfig {
  return {
    connectionString: url,
    types,
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: CONNECT,
    query_timeout: SILENCE,
    fallback_application_name: "rotunda",
  };
}

/** On every new connection, before its first use. */
export async function prepareSession(client: ClientBase): Promise<void> {
  // What the server says after the connection is lost; whoever uses the connection learns it from the statement.
  client.on("error", () => undefined);
  await client.query(`SET ${SETTINGS.join("; SET ")}`);
}

// ---- texts: Postgres has no U+0000, and no half of a surrogate pair

const ESCAPED = "\u0001";

/** Any text as one that Postgres takes; the same for the same text, so that it can be compared. */
function storable(text: string): string {
  const isPlain = text.isWellFormed() && !text.includes("\0") && !text.startsWith(ESCAPED);
  return isPlain ? text : ESCAPED + JSON.stringify(text);
}

export type Value = string | number | boolean | null;
export type Parameter = Value | readonly Value[];

export function parameterOf(value: Parameter): unknown {
  if (typeof value === "string") return storable(value);
  if (Array.isArray(value)) return value.map((one: Value) => (typeof one === "string" ? storable(one) : one));
  return value;
}

const [INT8, TEXT] = [20, 25];

/** How what comes from the database is read: whole numbers as numbers (ours are all below 2^53), texts as they were. */
export function typesOf(defaults: NonNullable<ClientConfig["types"]>): NonNullable<ClientConfig["types"]> {
  const getTypeParser = (oid: number, format?: "text" | "binary"): unknown => {
    if (oid === INT8) return Number;
    if (oid === TEXT) {
      return (text: string): string => (text.startsWith(ESCAPED) ? (JSON.parse(text.slice(1)) as string) : text);
    }
    return format === "binary" ? defaults.getTypeParser(oid, "binary") : defaults.getTypeParser(oid, "text");
  };
  return { getTypeParser: getTypeParser as typeof defaults.getTypeParser };
}

// ---- errors

/** What the server says (SQLSTATE); "" where the error is not the server's. EPIPE is none, though it has five letters. */
function stateOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return /^[0-9FHPX][0-9A-Z]{4}$/.test(code) ? code : "";
}

/** The connection is gone, or the server is not there: whether a statement had its effect may be unknown. */
export function isLost(error: unknown): boolean {
  if (error instanceof RotundaError) return false;
  const state = stateOf(error);
  // 25P03: the server has ended a transaction that stood idle, and the session with it.
  return state === "" ? !(error instanceof TypeError) : /^(08|57P0[1-5]|25P03)/.test(state);
}

/** Two transactions stood in each other's way: the same again may work. */
export function isConflict(error: unknown): boolean {
  // A name or a key that another transaction took at the same moment (23505) is seen at the second try.
  return ["40001", "40P01", "55P03", "23505"].includes(stateOf(error));
}

const remedies: readonly [RegExp, string][] = [
  [/^28/, "Check user and password of the database's address, and the server's pg_hba.conf."],
  [/^3D000/, "Create the database first: createdb NAME."],
  [/^42501/, "The user needs the right to make tables in this schema, and to read and write them."],
  [/^53300/, "Raise max_connections, or put PgBouncer before the server; each process of ours uses at most eight."],
  [/^25006/, "The server is a standby or set read-only: give the address of the primary."],
];

export function explainer(url: string): (error: unknown) => RotundaError {
  const place = withoutPassword(url);
  const secrets = [...url.matchAll(/:\/\/[^/@:]*:([^@]*)@/g), ...url.matchAll(/[?&](?:ssl)?password=([^&]*)/gi)]
    .flatMap(([, secret = ""]) => [secret, decode(secret)])
    .filter((secret) => secret.length > 3);
  const clean = (text: string) => secrets.reduce((left, secret) => left.replaceAll(secret, "***"), text);
  return (error) => {
    if (error instanceof RotundaError) return error;
    const state = stateOf(error);
    const message = clean(messageOf(error));
    // The driver's own errors may hold the address: only what the server says goes along as the cause.
    const cause = state === "" ? undefined : error;
    if (state === "53100") {
      const remedy = "Free some space on the database's server; nothing that was acknowledged is lost.";
      return new RotundaError("storage_full", `the database's disk is full: ${message}`, { cause, remedy });
    }
    if (state.startsWith("XX00")) {
      return new RotundaError("storage_damaged", `the database ${place} is damaged: ${message}`, { cause });
    }
    if (isLost(error)) {
      const remedy = "Check that the server runs and that the address is right; what is under way goes on by itself.";
      const text = `the database ${place} cannot be reached: ${message}`;
      return new RotundaError("storage_failed", text, { cause, remedy });
    }
    const remedy = remedies.find(([states]) => states.test(state))?.[1];
    const text = `the database ${place} failed: ${message}`;
    return new RotundaError("storage_failed", text, { cause, ...(remedy && { remedy }) });
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function messageOf(error: unknown): string {
  // Several addresses were tried: what was said of each.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join("; ");
  return error instanceof Error ? error.message : String(error);
}

/** Throws where the server is none that we can use. */
export async function checkServer(client: Pick<ClientBase, "query">, url: string): Promise<void> {
  const { rows } = await client.query<{ version: number; encoding: string }>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding`,
  );
  const { version = 0, encoding = "" } = rows[0] ?? {};
  if (version < OLDEST) {
    const text = `the database ${withoutPassword(url)} is Postgres ${Math.floor(version / 10_000)}; 13 is the oldest that can be used`;
    throw new RotundaError("storage_failed", text, { remedy: "Upgrade the server." });
  }
  if (encoding !== "UTF8") {
    const text = `the database ${withoutPassword(url)} has the encoding ${encoding}`;
    throw new RotundaError("storage_failed", text, { remedy: "Create it with: createdb -E UTF8 -T template0 NAME" });
  }
}
