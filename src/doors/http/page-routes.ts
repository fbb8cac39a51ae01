/**
 * Routes of the page: its files, signing in, and what only it asks for.
 *
 * Invariant: what is open to everybody holds nothing of anybody: files of the package, and the sign-in.
 */
import { defineRoute, type Route } from "./routes.ts";

/** Addresses of the page's own views: all of them are the one index.html, and the page reads its address itself. */
const VIEWS = [
  "/",
  "/c/:name",
  "/r/:name",
  "/tree",
  "/tree/:name",
  "/compare/:name/:other",
  "/runs",
  "/approvals",
  "/hub",
  "/hub/:name",
  "/profiles",
  "/usage",
  "/search",
  "/settings",
  "/models",
  "/schedules",
  "/help",
];

const views = VIEWS.map(
  (path): Route => ({
    method: "GET",
    path,
    summary: "The page, for people",
    ...(path !== "/" && { alias: true as const }),
    tag: "page",
    scope: null,
    style: "openai",
    produces: "text/html",
    statuses: { 304: "The browser has it", 404: "It was not built" },
    load: async () => (await import("./page.ts")).showPage,
  }),
);

export const pageRoutes: readonly Route[] = [
  ...views,
  {
    method: "GET",
    path: "/page/:file",
    summary: "A file of the page",
    tag: "page",
    scope: null,
    style: "openai",
    produces: "application/octet-stream",
    params: { file: /^[A-Za-z0-9_-][\w.-]{0,127}$/ },
    load: async () => (await import("./page.ts")).showFile,
  },
  defineRoute({
    method: "POST",
    path: "/rotunda/sign-in",
    summary: "Sign in to the page with the code of a one-time link, or with a token; the answer sets a cookie",
    tag: "page",
    scope: null,
    style: "openai",
    bodyLimit: 4_096,
    idempotent: "none",
    statuses: { 401: "The code was used or is too old, or the token opens nothing", 429: "Too many wrong attempts" },
    body: async () => (await import("./page-schemas.ts")).signIn,
    response: async () => (await import("./page-schemas.ts")).session,
    load: async () => (await import("./page-session.ts")).signIn,
  }),
  {
    method: "GET",
    path: "/rotunda/session",
    summary: "Who is signed in, and what he may do",
    tag: "page",
    scope: "any",
    style: "openai",
    response: async () => (await import("./page-schemas.ts")).session,
    load: async () => (await import("./page-session.ts")).readSession,
  },
  {
    method: "DELETE",
    path: "/rotunda/session",
    summary: "Sign out: the session opens nothing any more, and its streams end",
    tag: "page",
    scope: "any",
    style: "openai",
    statuses: { 204: "Done" },
    load: async () => (await import("./page-session.ts")).signOut,
  },
  {
    method: "POST",
    path: "/rotunda/sign-in-link",
    summary: "A link that signs in at the page, once, within 15 minutes; the local token only",
    tag: "page",
    scope: "admin",
    style: "openai",
    idempotent: "none",
    load: async () => (await import("./page-session.ts")).makeLink,
  },
];
