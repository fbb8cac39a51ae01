/**
 * The page that a browser shows when a login to an MCP server has come back to us.
 *
 * Invariant: it is static: nothing of the address that was opened, and nothing that a server said, is in it.
 */

/** Path of the callback, on every address that we are reached at. */
export const CALLBACK_PATH = "/oauth/callback";

export const CALLBACK_HEADERS = {
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  // The address holds the code: it is used up, and still nobody's business.
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
} as const;

export function callbackPage(done: boolean): string {
  const [title, text] = done
    ? ["Logged in", "Rotunda has its answer. You can close this page."]
    : ["Not logged in", "This login was not finished. Rotunda tells why, where you started it."];
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title} – Rotunda</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;margin:20vh auto;max-width:28rem;padding:0 1rem}</style>
<h1>${title}</h1><p>${text}</p></html>
`;
}
