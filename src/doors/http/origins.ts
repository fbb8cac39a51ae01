/**
 * Hosts and origins: which names this server answers to, and which pages may talk to it.
 *
 * Invariant: both are exact lists. A host that is not on the list is refused on every route, so that no page can
 * reach us by a name of its own (DNS rebinding); an origin that is not on the list is refused, never echoed.
 */
import { isIPv6 } from "node:net";
import { RotundaError } from "../../types/error.ts";

const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];

export class Origins {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  /** Those of other places: their answers carry CORS headers. */
  readonly #foreign: ReadonlySet<string>;

  /**
   * `names`: further host names, with or without a port; `origins`: as browsers write them
   * (`https://app.example.com`). Throws `usage` on what is none.
   */
  constructor(port: number, names: readonly string[], origins: readonly string[]) {
    const own = [...LOOPBACK, ...names.map(hostOf)];
    this.#hosts = new Set(own.flatMap((name) => withPort(name, port)));
    this.#foreign = new Set(origins.map(originOf));
    const pages = [...this.#hosts].flatMap((host) => [`http://${host}`, `https://${host}`]);
    this.#origins = new Set([...pages, ...this.#foreign]);
  }

  allowsHost(host: string | undefined): boolean {
    return host !== undefined && (this.#hosts.has(host) || this.#hosts.has(host.toLowerCase()));
  }

  allowsOrigin(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /** Answers depend on the origin only where foreign ones are allowed. */
  get hasForeign(): boolean {
    return this.#foreign.size > 0;
  }

  isForeign(origin: string): boolean {
    return this.#foreign.has(origin);
  }
}

function hostOf(name: string): string {
  const bare = isIPv6(name) ? `[${name}]` : name.toLowerCase();
  if (!/^(?:\[[0-9a-f:]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/.test(bare)) {
    throw new RotundaError("usage", `"${name}" is no host name.`);
  }
  return bare;
}

/** With our port; a name behind a proxy on a usual port comes without one. */
function withPort(name: string, port: number): string[] {
  if (/:\d+$/.test(name)) return [name];
  const usual = port === 80 || port === 443 || !LOOPBACK.includes(name);
  return usual ? [`${name}:${port}`, name] : [`${name}:${port}`];
}

function originOf(text: string): string {
  const origin = URL.canParse(text) ? new URL(text).origin : "null";
  if (origin === "null" || origin !== text.replace(/\/$/, "").toLowerCase()) {
    throw new RotundaError(
      "usage",
      `"${text}" is no origin; one looks like https://app.example.com, and * is not taken.`,
    );
  }
  return origin;
}
