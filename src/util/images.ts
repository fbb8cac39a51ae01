/**
 * Images that tools bring: which of them models take.
 *
 * Invariant: what comes out is a `data:` URL of a kind that every seeing model reads, and of bounded length.
 */
import type { InputImage } from "../types/item.ts";

/** Of one result. */
export const MAX_IMAGES = 8;
/** Bytes of one image; the usual limit of endpoints. */
export const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;

/** Undefined: a kind that models do not take, too large, or no base64. */
export function imageOf(mediaType: string, base64: string): InputImage | undefined {
  const kind = /^image\/(?:png|jpe?g|gif|webp)\b/i.exec(mediaType)?.[0].toLowerCase().replace("jpg", "jpeg");
  if (kind === undefined || base64 === "" || base64.length > (MAX_IMAGE_BYTES * 4) / 3 + 4) return undefined;
  return BASE64.test(base64) ? { type: "input_image", image_url: `data:${kind};base64,${base64}` } : undefined;
}

/** The kind of an image by how its bytes begin; undefined: it is none that models take. */
export function imageKind(bytes: Buffer): string | undefined {
  const head = bytes.toString("latin1", 0, 12);
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(head)) return "image/gif";
  return /^RIFF.{4}WEBP/s.test(head) ? "image/webp" : undefined;
}
