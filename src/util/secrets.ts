/**
 * Redaction: known secret values are replaced before anything is logged, stored, told to a model or shown.
 *
 * Invariant: a text that has passed `redact` holds none of the registered values, neither as they are nor as
 * JSON or an address writes them.
 */

export type Redact = (text: string) => string;

const MINIMUM_LENGTH = 6;

/** A redactor for the given values. Values under six characters are ignored: they would blank ordinary words. */
export function createRedactor(values: readonly string[]): Redact {
  const known = values.map((value) => value.trim()).filter((value) => value.length >= MINIMUM_LENGTH);
  if (known.length === 0) return (text) => text;
  const forms = [...new Set(known.flatMap(writtenForms))].sort((a, b) => b.length - a.length);
  const pattern = new RegExp(forms.map((form) => form.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")).join("|"), "g");
  return (text) => text.replace(pattern, "***");
}

/** Kept at most: tokens are renewed for as long as we live, and old ones are worth nothing. */
const MAX_LEARNED = 500;

/** Secrets that become known one by one. */
export class LearnedSecrets {
  readonly #values = new Set<string>();
  #redact: Redact = (text) => text;

  add(value: string): void {
    if (this.#values.has(value)) return;
    const [oldest] = this.#values;
    if (this.#values.size >= MAX_LEARNED && oldest !== undefined) this.#values.delete(oldest);
    this.#values.add(value);
    this.#redact = createRedactor([...this.#values]);
  }

  redact(text: string): string {
    return this.#redact(text);
  }
}

/** As it is, in JSON, in JSON that is a text of JSON, in an address. */
function writtenForms(value: string): string[] {
  const inJson = JSON.stringify(value).slice(1, -1);
  return [value, inJson, JSON.stringify(inJson).slice(1, -1), encodeURIComponent(value.toWellFormed())];
}

/** A key as a person may see it: never more than its last four characters, and those only of long ones. */
export function mask(value: string): string {
  return value.length >= 16 ? `****${value.slice(-4)}` : "****";
}

const SECRET_NAME =
  /(?:KEYS?|TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE)(?:[_-]|$)|(?:^|[_-])(?:PAT|PASS|PWD|AUTH|AUTHORIZATION|SIG|SIGNATURE)$/i;
/** They name where a secret lies, or (`PWD`) nothing secret at all. */
const PLACE_NAME = /^(?:OLD)?PWD$|[_-](?:FILE|PATH|DIR|SOCK|URL|URI)$/i;

/** Whether a variable, parameter, option or header of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PLACE_NAME.test(name);
}

/** Passwords and keys in an address; none where the text is no address. */
export function secretsInUrl(text: string): string[] {
  if (!text.includes("://")) return [];
  const { protocol, username, password, searchParams } = URL.canParse(text) ? new URL(text) : partsOf(text);
  // A token may stand in the place of the user; in other addresses that is a name (`postgres://postgres@…`).
  const token = password === "" && protocol.startsWith("http") ? username : password;
  const written = [token, decoded(token)];
  for (const [name, value] of searchParams) if (isSecretName(name)) written.push(value);
  return written.filter((value) => value !== "");
}

/** A database's address may name a socket's folder or several hosts: then it is no URL, and has a password all the same. */
function partsOf(text: string): Pick<URL, "protocol" | "username" | "password" | "searchParams"> {
  const found = /^([a-z][a-z0-9+.-]*:)\/\/(?:([^/?#:@]*)(?::([^/?#]*))?@)?/i.exec(text);
  const [, protocol = "", username = "", password = ""] = found ?? [];
  return { protocol, username, password, searchParams: new URLSearchParams(/\?(.*)/s.exec(text)?.[1] ?? "") };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Secrets of a command line: `--token=x`, `--token x`, `TOKEN=x`, `Authorization: Bearer x`, addresses. */
export function secretsInArguments(args: readonly string[]): string[] {
  return args.flatMap((argument, index) => {
    const found = secretsInUrl(argument);
    const [, name = "", value = ""] = /^-{0,2}([\w-]+)[=:]\s*(.+)$/s.exec(argument) ?? [];
    if (isSecretName(name)) found.push(withoutScheme(value));
    if (/^--?[\w-]+$/.test(args[index - 1] ?? "") && isSecretName(args[index - 1] ?? "")) found.push(argument);
    return [...found, ...secretsInUrl(value)];
  });
}

/** `Bearer x` → `x`. */
export function withoutScheme(header: string): string {
  return header.replace(/^(?:Bearer|Basic|Token|ApiKey)\s+/i, "");
}
