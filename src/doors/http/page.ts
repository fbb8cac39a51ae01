/**
 * The page's files, as the build has made them.
 *
 * Invariant: only what lies flat in the one folder is served, by its name and read whole; a file whose name holds a
 * hash of its content is the browser's to keep, index.html is asked for again each time.
 */
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { RotundaError } from "../../types/error.ts";
import type { Headers, RequestContext } from "./context.ts";
import { PAGE_HEADERS } from "./page-headers.ts";
import type { Handler } from "./routes.ts";

/** Beside the chunk that this is part of; from a checkout, in `dist`. */
const FOLDERS = [join(import.meta.dirname, "page"), join(import.meta.dirname, "../../../dist/page")];

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".json": "application/json; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
};

interface File {
  bytes: Buffer;
  encoding: "br" | "gzip" | undefined;
}

async function readOne(name: string): Promise<Buffer | undefined> {
  for (const folder of FOLDERS) {
    const bytes = await readFile(join(folder, name)).catch(() => undefined);
    if (bytes) return bytes;
  }
  return undefined;
}

/** The smallest form that the browser takes. */
async function readFileFor({ request }: RequestContext, name: string): Promise<File | undefined> {
  const taken = String(request.headers["accept-encoding"] ?? "");
  for (const [encoding, ending] of [["br", ".br"] as const, ["gzip", ".gz"] as const]) {
    if (!new RegExp(`(?:^|[\\s,])${encoding}(?!\\s*;\\s*q=0(?:\\.0*)?(?:\\s|,|$))(?:[\\s,;]|$)`).test(taken)) continue;
    const bytes = await readOne(`${name}${ending}`);
    if (bytes) return { bytes, encoding };
  }
  const bytes = await readOne(name);
  return bytes && { bytes, encoding: undefined };
}

function send(context: RequestContext, { bytes, encoding }: File, headers: Headers): void {
  const lines = context.headerLines(200, {
    ...PAGE_HEADERS,
    vary: "Accept-Encoding",
    ...(encoding && { "content-encoding": encoding }),
    "content-length": String(bytes.length),
    ...headers,
  });
  context.answeredAt = performance.now();
  context.response.writeHead(200, lines);
  context.response.end(bytes);
}

/** For what may change under its name: the browser asks each time, and mostly hears that nothing did. */
function sendFresh(context: RequestContext, file: File, type: string): void {
  const etag = `"${hash("sha256", file.bytes).slice(0, 32)}"`;
  const headers = { etag, "cache-control": "no-cache", "content-type": type };
  if (context.request.headers["if-none-match"] === etag) context.empty(304, { ...PAGE_HEADERS, ...headers });
  else send(context, file, headers);
}

export const showPage: Handler = async (context) => {
  const file = await readFileFor(context, "index.html");
  if (!file) throw new RotundaError("not_found", "The page was not built. `npm run build` makes it.");
  sendFresh(context, file, TYPES[".html"] ?? "");
};

/** A name with the hash of its content, as esbuild writes it. */
const HASHED = /-[A-Za-z0-9]{8}\./;

export const showFile: Handler = async (context) => {
  const { file: name = "" } = context.params;
  const type = TYPES[extname(name)];
  const file = type !== undefined && name !== "index.html" ? await readFileFor(context, name) : undefined;
  if (!file || type === undefined) throw new RotundaError("not_found", "There is no such file.");
  if (!HASHED.test(name)) return sendFresh(context, file, type);
  send(context, file, { "cache-control": "public, max-age=31536000, immutable", "content-type": type });
};
