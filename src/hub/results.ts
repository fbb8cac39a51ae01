/**
 * Results: what a server answered to a call → what the model reads.
 *
 * Invariant: the text is never empty and holds no base64: images stand beside it; whatever the answer looks like, reading it does not
 * throw: an answer of the wrong shape is an error result.
 */
import type { InputImage } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { ToolResult } from "../types/tool.ts";
import { imageOf, MAX_IMAGES } from "../util/images.ts";
import { MAX_DEPTH } from "../util/limits.ts";
import { isObject } from "./definitions.ts";

/** Reads a raw `tools/call` result of the named server. */
export function readResult(raw: unknown, server: string): ToolResult {
  if (!isObject(raw)) return wrongShape(server, "it is not an object");
  const { content, structuredContent, isError, toolResult } = raw;
  if (content !== undefined && !Array.isArray(content)) return wrongShape(server, "its content is not a list");
  const structured = structuredContent ?? toolResult;
  if (content === undefined && structured === undefined) return wrongShape(server, "it has no content");
  const blocks = content ?? [];
  const lines: string[] = [];
  const images: InputImage[] = [];
  for (const block of blocks) {
    if (!isObject(block) || typeof block.type !== "string") return wrongShape(server, "a content block has no type");
    lines.push(readBlock(block));
    const image = imageIn(block);
    if (image && images.length < MAX_IMAGES) images.push(image);
  }
  const kept = structured !== undefined && withinDepth(structured) ? structured : undefined;
  const hasText = blocks.some((block) => isObject(block) && block.type === "text");
  if (!hasText && kept !== undefined) lines.push(JSON.stringify(kept));
  const text = lines.join("\n");
  return {
    text: text === "" ? "(no output)" : text,
    ...(isError === true ? { isError: true } : {}),
    ...(kept === undefined ? {} : { structured: kept }),
    ...(images.length > 0 && { images }),
  };
}

/** A failure as the model sees it. */
export function errorResult(text: string): ToolResult {
  return { text, isError: true };
}

function wrongShape(server: string, why: string): ToolResult {
  return errorResult(
    `[Tool call failed: the server ${server} sent a result of the wrong shape (${why}). The call may have taken effect.]`,
  );
}

function readBlock(block: Record<string, Json | undefined>): string {
  const media = typeof block.mimeType === "string" ? block.mimeType : "unknown type";
  switch (block.type) {
    case "text":
      return typeof block.text === "string" ? block.text : "";
    case "image":
      return `[Image: ${media}]`;
    case "audio":
      return `[Audio: ${media}]`;
    case "resource_link":
      return `[Resource: ${[block.title ?? block.name, block.uri, block.description].filter(isText).join(" – ")}]`;
    case "resource":
      return readResource(block.resource);
    default:
      return withinDepth(block) ? JSON.stringify(block) : `[${String(block.type)}]`;
  }
}

/** The image of a block, if it is one that models take. */
function imageIn(block: Record<string, Json | undefined>): InputImage | undefined {
  const resource = block.type === "resource" && isObject(block.resource) ? block.resource : undefined;
  const data = block.type === "image" ? block.data : resource?.blob;
  const media = block.type === "image" ? block.mimeType : resource?.mimeType;
  return typeof data === "string" && typeof media === "string" ? imageOf(media, data) : undefined;
}

function readResource(resource: Json | undefined): string {
  if (!isObject(resource)) return "[Resource]";
  if (typeof resource.text === "string") return resource.text;
  const label = [resource.uri, resource.mimeType].filter(isText).join(", ");
  return `[Resource: ${label}]`;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Recursive, but never deeper than its own bound. */
function withinDepth(value: Json, left = MAX_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (left === 0) return false;
  for (const key in value) if (!withinDepth((value as JsonObject)[key] ?? null, left - 1)) return false;
  return true;
}
