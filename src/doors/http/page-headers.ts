/** Headers of the page. Invariant: it fetches from this server only, runs no script but its files, and is framed by nobody. */
import type { Headers } from "./context.ts";

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  // DOMPurify alone makes HTML.
  "require-trusted-types-for 'script'",
  "trusted-types dompurify",
].join("; ");

/** Nothing of the address goes anywhere. */
export const CALM: Headers = { "referrer-policy": "no-referrer" };

export const PAGE_HEADERS: Headers = {
  ...CALM,
  "content-security-policy": POLICY,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "camera=(), microphone=(), geolocation=(), payment=(), usb=(), serial=(), hid=(), display-capture=()",
  "x-frame-options": "DENY",
};
