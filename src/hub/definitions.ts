/**
 * Definitions: what a server says about its tools, bounded and fingerprinted.
 *
 * Invariant: a definition that leaves this file is plain JSON within the budget below, so that hashing,
 * storing and showing it are cheap; its schema is never compiled and no `$ref` of it is ever followed.
 */
import { createHash } from "node:crypto";
import type { JsonObject, JsonSchema } from "../types/json.ts";
import { canonicalJson } from "../util/canonical.ts";
import { visible } from "../util/text.ts";

/** Budget of one tool's schema. */
const SCHEMA_LIMITS = { characters: 256 * 1024, depth: 60, nodes: 20_000 } as const;

const MAX_TOOLS = 2000;
/** Of all schemas and descriptions of one server. */
const LISTING_CHARACTERS = 4 * 1024 * 1024;
const MAX_DESCRIPTION = 16 * 1024;
const MAX_TOOL_NAME = 512;

export interface Definition {
  description: string;
  input: JsonSchema;
}

/** One tool as its server offers it. */
export interface ListedTool extends Definition {
  /** The server's own name for it. */
  name: string;
  title?: string;
  /** The schema asks for `Mcp-Param-*` headers (2026-07-28 over HTTP). */
  headers?: boolean;
  /** SHA-256 over name, title, description and schema, keys sorted. */
  fingerprint: string;
  /** Characters of its canonical definition. */
  size: number;
}

export interface Listing {
  /** Sorted by name. */
  tools: ListedTool[];
  /** One line for each tool that was left out. */
  warnings: string[];
}

/** Reads the pages of a `tools/list`. An entry that is malformed or over a budget is left out, not fatal. */
export class ListingReader {
  readonly #tools = new Map<string, ListedTool>();
  readonly #warnings: string[] = [];
  #characters = 0;
  #leftOut = 0;

  add(entries: readonly unknown[]): void {
    for (const entry of entries) {
      if (this.full) this.#leftOut++;
      else this.#addOne(entry);
    }
  }

  /** No more tools are taken. */
  get full(): boolean {
    return this.#tools.size + this.#warnings.length >= MAX_TOOLS || this.#characters > LISTING_CHARACTERS;
  }

  #addOne(entry: unknown): void {
    const tool = readTool(entry);
    if (typeof tool === "string") this.#warnings.push(tool);
    else if (this.#tools.has(tool.name))
      this.#warnings.push(`tool ${JSON.stringify(shown(tool.name))} is listed twice`);
    else {
      this.#tools.set(tool.name, tool);
      this.#characters += tool.size;
    }
  }

  get listing(): Listing {
    const tools = [...this.#tools.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    const rest = this.#leftOut > 0 ? [`${this.#leftOut} tools over the limits of one server`] : [];
    return { tools, warnings: [...this.#warnings, ...rest] };
  }
}

/** Reads entries that came at once. */
export function readListing(entries: readonly unknown[]): Listing {
  const reader = new ListingReader();
  reader.add(entries);
  return reader.listing;
}

function readTool(entry: unknown): ListedTool | string {
  if (!isObject(entry)) return "an entry is not an object";
  const { name, title, description, inputSchema } = entry;
  if (typeof name !== "string" || name === "" || name.length > MAX_TOOL_NAME) return "a tool has no usable name";
  const label = `tool ${JSON.stringify(shown(name))}`;
  if (description !== undefined && typeof description !== "string") return `${label}: its description is not text`;
  const schema = inputSchema ?? { type: "object", properties: {} };
  if (!isObject(schema)) return `${label}: its schema is not an object`;
  const excess = overBudget(schema);
  if (excess) return `${label}: its schema ${excess}`;
  const headers = checkHeaders(schema);
  if (headers.fault) return `${label}: ${headers.fault}`;
  const input: JsonSchema = schema.type === undefined ? { type: "object", ...schema } : schema;
  const annotations = isObject(entry.annotations) ? entry.annotations : {};
  const display = typeof title === "string" ? title : annotations.title;
  const listed = {
    name,
    ...(typeof display === "string" && display !== "" ? { title: shown(display) } : {}),
    // Invisible characters are a way to tell the model what its person cannot see.
    description: visible((description ?? "").slice(0, MAX_DESCRIPTION)).slice(0, MAX_DESCRIPTION),
    input,
    ...(headers.declared ? { headers: true } : {}),
  };
  // Sorted keys: a server that lists a hash map in a new order has not changed.
  const text = canonicalJson([listed.name, listed.title ?? null, listed.description, listed.input]);
  return { ...listed, fingerprint: createHash("sha256").update(text).digest("hex"), size: text.length };
}

/** Why a schema is over the budget, or undefined. Iterative: a hostile schema cannot overflow the stack. */
function overBudget(schema: JsonObject): string | undefined {
  const waiting: { value: unknown; depth: number }[] = [{ value: schema, depth: 1 }];
  let nodes = 0;
  let characters = 0;
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, depth } = next;
    if (++nodes > SCHEMA_LIMITS.nodes) return `has more than ${SCHEMA_LIMITS.nodes} nodes`;
    if (typeof value === "string") characters += value.length;
    else if (typeof value === "object" && value !== null) {
      if (depth > SCHEMA_LIMITS.depth) return `is nested deeper than ${SCHEMA_LIMITS.depth}`;
      for (const [key, child] of Object.entries(value)) {
        characters += key.length + 4;
        waiting.push({ value: child, depth: depth + 1 });
      }
      if (waiting.length > SCHEMA_LIMITS.nodes) return `has more than ${SCHEMA_LIMITS.nodes} nodes`;
    } else characters += 4;
    if (characters > SCHEMA_LIMITS.characters) return `is over ${SCHEMA_LIMITS.characters} characters`;
  }
  return undefined;
}

const HEADER_KEY = "x-mcp-header";
const HEADER_TYPES = new Set(["string", "integer", "boolean"]);
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Checks the `x-mcp-header` declarations of a schema (protocol 2026-07-28): tokens, unique without regard to
 * case, on primitive properties that are reached through `properties` alone. A tool that breaks this is unusable.
 */
function checkHeaders(schema: JsonObject): { declared: boolean; fault?: string } {
  const seen = new Set<string>();
  const waiting: { value: unknown; chain: boolean; property: boolean }[] = [
    { value: schema, chain: true, property: false },
  ];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, chain, property } = next;
    if (Array.isArray(value)) for (const child of value) waiting.push({ value: child, chain: false, property: false });
    if (!isObject(value)) continue;
    const header = value[HEADER_KEY];
    if (header !== undefined) {
      const fault = headerFault(header, value, chain && property, seen);
      if (fault) return { declared: true, fault };
    }
    for (const [key, child] of Object.entries(value)) {
      // Values, not schemas.
      if (key === "default" || key === "const" || key === "enum" || key === "examples") continue;
      // Below these the keys are names, and each value is a schema.
      const named = key === "properties" || key === "$defs" || key === "patternProperties";
      const schemas = named && isObject(child) ? Object.values(child) : [child];
      const onChain = chain && key === "properties";
      for (const each of schemas) waiting.push({ value: each, chain: onChain, property: onChain });
    }
  }
  return { declared: seen.size > 0 };
}

function headerFault(header: unknown, schema: JsonObject, reachable: boolean, seen: Set<string>): string | undefined {
  if (!reachable) return "x-mcp-header stands where no header can be made of it";
  if (typeof header !== "string" || !TOKEN.test(header)) return "x-mcp-header is not a valid header name";
  if (typeof schema.type !== "string" || !HEADER_TYPES.has(schema.type)) return "x-mcp-header needs a primitive type";
  const lower = header.toLowerCase();
  if (seen.has(lower)) return `x-mcp-header ${JSON.stringify(header)} is declared twice`;
  seen.add(lower);
  return undefined;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(name: string): string {
  return visible(name.slice(0, 100)).slice(0, 100);
}
