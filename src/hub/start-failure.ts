/**
 * Why a server could not be started or reached, in plain words. Loaded when it happens.
 *
 * Invariant: no password and no query of an address is shown; what is not known stays in the words that came.
 */
import type { ServerConfig } from "../types/config.ts";
import { visible } from "../util/text.ts";
import { describe } from "./failures.ts";

const SHOWN_LINES = 5;
const SHOWN_CHARACTERS = 500;
/** Milliseconds that nobody minds. */
const NOTICED = 1_000;
/** Characters of stderr in which the line that says most is looked for. */
const SEARCHED = 4_000;

const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was broken off",
  UND_ERR_SOCKET: "the connection was broken off",
  EPIPE: "the connection was broken off",
  ENOTFOUND: "no host has that name",
  EAI_AGAIN: "the host's name could not be looked up",
  EHOSTUNREACH: "no way leads to the host",
  ENETUNREACH: "no way leads to the host",
  ETIMEDOUT: "it does not answer",
  UND_ERR_CONNECT_TIMEOUT: "it does not answer",
  UND_ERR_HEADERS_TIMEOUT: "it does not answer",
  CERT_HAS_EXPIRED: "its certificate has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is signed by itself (NODE_EXTRA_CA_CERTS names a file of your own)",
  SELF_SIGNED_CERT_IN_CHAIN:
    "its certificate is not signed by anyone known (NODE_EXTRA_CA_CERTS names a file of your own)",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "its certificate is not signed by anyone known (NODE_EXTRA_CA_CERTS names a file of your own)",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    "its certificate is not signed by anyone known (NODE_EXTRA_CA_CERTS names a file of your own)",
};

export interface StartFailure {
  /** With what can be done about it, where that is known. */
  text: string;
  /** Seconds, where nothing came for so long. */
  waited?: number;
  /** Seconds until it failed by itself, where somebody may have waited for it. */
  took?: number;
}

/** `milliseconds`: how long the attempt took. `stderr`: all that is kept of it. */
export function startFailure(error: unknown, config: ServerConfig, milliseconds: number, stderr: string): StartFailure {
  const took = milliseconds > NOTICED ? { took: milliseconds / 1000 } : {};
  const seconds = Math.max(1, Math.round(milliseconds / 1000));
  if (isTimeout(error)) return { text: silence(config, seconds, stderr), waited: seconds };
  if (config.transport === "http") return { text: unreachable(error, config), ...took };
  const said = error instanceof Error && error.message.startsWith("the program ") ? error.message : describe(error);
  // What could not be written to it comes before the news of its end.
  const why = said.includes("no longer reads") ? "the program ended before it answered" : said;
  const line = tellingLine(stderr);
  // Within a sandbox it is a shell that does not find it.
  const { command = "" } = config;
  if (/exit code 127|ended before/.test(why) && line.endsWith(`${command}: not found`))
    return { text: `command not found: ${command}` };
  return { text: line === "" ? why : `${why}: ${line}`, ...took };
}

function isTimeout(error: unknown): boolean {
  return causes(error).some((one) => codeOf(one) === "REQUEST_TIMEOUT" || one.message === "Request timed out");
}

function silence(config: ServerConfig, seconds: number, stderr: string): string {
  if (config.transport === "http") return `${addressOf(config)} did not answer within ${seconds} s. Is its url right?`;
  const lines = visible(stderr).trim().split("\n").slice(-SHOWN_LINES).join("\n").slice(-SHOWN_CHARACTERS);
  const words = lines === "" ? "wrote nothing to stderr" : `its last words: ${lines}`;
  const remedy =
    "Run its command by hand to see what it waits for; if it is only slow, raise startTimeout of its entry.";
  return `the program was started and did not answer within ${seconds} s; ${words}${lines === "" ? ". " : "\n"}${remedy}`;
}

function unreachable(error: unknown, config: ServerConfig): string {
  const reason = networkReason(error);
  if (reason !== undefined) return `cannot reach ${addressOf(config)}: ${reason}`;
  const said = describe(error).replace(/Version negotiation probe failed: |^HTTP \d+: /g, "");
  const status = causes(error).flatMap((one) =>
    "status" in one && typeof one.status === "number" ? [one.status] : [],
  )[0];
  return status === undefined ? said : `${addressOf(config)} answers HTTP ${status}: ${said}`;
}

/** Of what a program wrote to stderr, the line that says most: its last error, else its last line. */
function tellingLine(stderr: string): string {
  const lines = visible(stderr)
    .slice(-SEARCHED)
    .split("\n")
    .map((line) => line.trim());
  const said = lines.filter((line) => line !== "" && !/^(?:at .*[:)]\S*|Node\.js v[\d.]+|[{}^~]+)$/.test(line));
  return said.findLast((line) => /\b(?:\w*error|fatal|panic|\w*exception)\b.{0,20}:/i.test(line)) ?? said.at(-1) ?? "";
}

function causes(error: unknown): Error[] {
  const all: Error[] = [];
  const waiting: unknown[] = [error];
  for (let next = waiting.shift(); next instanceof Error && all.length < 8; next = waiting.shift()) {
    all.push(next);
    if (next instanceof AggregateError) waiting.push(...next.errors);
    if (next.cause !== undefined) waiting.push(next.cause);
    if ("data" in next && typeof next.data === "object" && next.data !== null && "cause" in next.data)
      waiting.push(next.data.cause);
  }
  return all;
}

function codeOf(error: Error): unknown {
  return "code" in error ? error.code : undefined;
}

function networkReason(error: unknown): string | undefined {
  for (const one of causes(error)) {
    const code = codeOf(one);
    if (typeof code === "string" && NETWORK[code] !== undefined) return NETWORK[code];
  }
  const words = describe(error);
  return Object.entries(NETWORK).find(([code]) => words.includes(code))?.[1];
}

/** Where it leads, without what may be secret. */
function addressOf({ url = "" }: ServerConfig): string {
  if (!URL.canParse(url)) return "its url";
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
