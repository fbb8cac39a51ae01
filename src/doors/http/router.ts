/**
 * Router: path → the routes on it.
 *
 * Invariant: the path is taken as the client wrote it, segment by segment; nothing is normalized, and only the
 * value of a parameter is ever decoded. A path that has no parameter is one look into a map.
 */
import type { ZodType } from "zod";
import { isId } from "../../util/ids.ts";
import type { RouteMetrics } from "./metrics.ts";
import type { Handler, Method, ParameterForm, Route } from "./routes.ts";

/** A route with what has been loaded for it. */
export interface Entry {
  readonly route: Route;
  /** Names of its parameters, in the order of the path. */
  readonly names: readonly string[];
  readonly metrics: RouteMetrics;
  handler: Handler | undefined;
  schema: ZodType | undefined;
}

interface Node {
  children: Map<string, Node>;
  parameter: Node | undefined;
  entries: Map<Method, Entry> | undefined;
}

export interface Match {
  entries: ReadonlyMap<Method, Entry>;
  /** Of the parameters, in the order of the path, not decoded. */
  values: readonly string[];
}

const NO_VALUES: readonly string[] = [];

export class Router {
  readonly entries: Entry[] = [];
  readonly #fixed = new Map<string, Match>();
  readonly #root: Node = { children: new Map(), parameter: undefined, entries: undefined };

  /** Throws where two routes have the same method and path. */
  add(route: Route, metrics: RouteMetrics): void {
    const segments = route.path.slice(1).split("/");
    const names = segments.filter((segment) => segment.startsWith(":")).map((segment) => segment.slice(1));
    const entry: Entry = { route, names, metrics, handler: undefined, schema: undefined };
    const entries = this.#entriesOf(route.path, segments);
    if (entries.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
    entries.set(route.method, entry);
    this.entries.push(entry);
  }

  #entriesOf(path: string, segments: readonly string[]): Map<Method, Entry> {
    if (!path.includes("/:")) {
      const known = this.#fixed.get(path)?.entries as Map<Method, Entry> | undefined;
      const entries = known ?? new Map<Method, Entry>();
      if (!known) this.#fixed.set(path, { entries, values: NO_VALUES });
      return entries;
    }
    let node = this.#root;
    for (const segment of segments) {
      let next = segment.startsWith(":") ? node.parameter : node.children.get(segment);
      if (!next) {
        next = { children: new Map(), parameter: undefined, entries: undefined };
        if (segment.startsWith(":")) node.parameter = next;
        else node.children.set(segment, next);
      }
      node = next;
    }
    node.entries ??= new Map();
    return node.entries;
  }

  find(path: string): Match | undefined {
    const fixed = this.#fixed.get(path);
    if (fixed) return fixed;
    if (!path.startsWith("/")) return undefined;
    const segments = path.slice(1).split("/", 16);
    const values: string[] = [];
    const entries = search(this.#root, segments, 0, values);
    return entries && { entries, values };
  }
}

/** A fixed segment wins over a parameter. */
function search(node: Node, segments: readonly string[], at: number, values: string[]): Map<Method, Entry> | undefined {
  const segment = segments[at];
  if (segment === undefined) return node.entries;
  const child = node.children.get(segment);
  const found = child && search(child, segments, at + 1, values);
  if (found) return found;
  if (!node.parameter) return undefined;
  values.push(segment);
  const below = search(node.parameter, segments, at + 1, values);
  if (!below) values.pop();
  return below;
}

const NAME = /^[^\p{Cc}/\\]{1,256}$/u;

/** The parameters of a matched route by name; undefined where one does not have its form. */
export function parametersOf(entry: Entry, values: readonly string[]): Record<string, string> | undefined {
  const parameters: Record<string, string> = {};
  for (const [index, name] of entry.names.entries()) {
    const raw = values[index] ?? "";
    const value = raw.includes("%") ? decoded(raw) : raw;
    const form = entry.route.params?.[name] ?? defaultForm(name);
    if (value === undefined || !fits(value, form)) return undefined;
    parameters[name] = value;
  }
  return parameters;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function defaultForm(name: string): ParameterForm {
  return name === "id" || name.endsWith("Id") ? "id" : "name";
}

function fits(value: string, form: ParameterForm): boolean {
  if (form === "id") return isId(value);
  if (form !== "name") return form.test(value);
  return value !== "." && value !== ".." && value.isWellFormed() && NAME.test(value);
}

/** Loads what a route needs, once. */
export async function load(entry: Entry): Promise<{ handler: Handler; schema: ZodType | undefined }> {
  const { route } = entry;
  entry.schema ??= await route.body?.();
  entry.handler ??= await route.load();
  return { handler: entry.handler, schema: entry.schema };
}
