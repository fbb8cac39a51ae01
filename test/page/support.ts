/**
 * The page in a real browser, against the built program as a process of its own.
 *
 * Invariant: nothing is replaced: the server, its database, its sockets and the browser are the real ones; only the
 * model's endpoint is a scripted one. Where the machine has no chromium, suites say aloud that they are skipped.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { startUpstream, type Upstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const browserPath = process.env.ROTUNDA_TEST_CHROMIUM ?? PLACES.find((path) => existsSync(path));
export const hasBrowser = browserPath !== undefined;

if (!hasBrowser) {
  process.stderr.write(
    "\nSKIPPED: no chromium on this machine; the page's suites do not run (apt-get install chromium)\n\n",
  );
}

let browser: Browser | undefined;

/** One browser for each file of tests. */
export function withBrowser(): void {
  beforeAll(async () => {
    if (!browserPath) return;
    const args = ["--js-flags=--expose-gc", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
    browser = await chromium.launch({ executablePath: browserPath, args });
  });
  afterAll(async () => {
    await browser?.close();
  });
}

export interface PageServer {
  url: string;
  token: string;
  folder: string;
  workspace: string;
  upstream: Upstream;
  /** As a power cut of the process would end it. */
  kill(): Promise<void>;
  /** At the same port, on what is there. */
  start(): Promise<void>;
  /** A one-time link. */
  link(): Promise<string>;
  /** A request with the local token. */
  ask<T>(path: string, json?: unknown, method?: string): Promise<T>;
}

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

export async function startPageServer(script: UpstreamScript, config: object = {}): Promise<PageServer> {
  const folder = temporaryFolder();
  const workspace = join(folder, "workspace");
  const state = join(folder, "state");
  mkdirSync(workspace, { recursive: true });
  const upstream = await startUpstream(script, { models: ["test-model", "other-model"] });
  later(() => upstream.close());
  const model = (id: string) => ({ id, baseUrl: upstream.url, model: id, apiKey: "sk-test-0123456789" });
  const file = join(folder, "rotunda.yaml");
  writeFileSync(file, JSON.stringify({ models: [model("test-model"), model("other-model")], ...config }));
  const port = await freePort();
  const env = { PATH: process.env.PATH, HOME: folder, ROTUNDA_HOME: state, ROTUNDA_CONFIG: file, NO_COLOR: "1" };
  let child: ChildProcess | undefined;
  const kill = async () => {
    const running = child;
    child = undefined;
    if (!running || running.exitCode !== null) return;
    const gone = new Promise((resolve) => running.once("exit", resolve));
    running.kill("SIGKILL");
    await gone;
  };
  const start = async () => {
    child = spawn(process.execPath, [program, "serve", "--port", String(port), "--quiet"], {
      cwd: workspace,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    await listening(child);
  };
  later(kill);
  await start();
  const url = `http://127.0.0.1:${port}`;
  const token = readFileSync(join(state, "token"), "utf8").trim();
  const made: PageServer = {
    ...{ url, token, folder, workspace, upstream, kill, start },
    link: async () => (await made.ask<{ url: string }>("/rotunda/sign-in-link", undefined, "POST")).url,
    async ask<T>(path: string, json?: unknown, method = json === undefined ? "GET" : "POST"): Promise<T> {
      const answer = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(json !== undefined && { "content-type": "application/json" }),
        },
        ...(json !== undefined && { body: JSON.stringify(json) }),
      });
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    },
  };
  return made;
}

function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    let errors = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("listening on")) resolve();
    });
    child.once("exit", (code) => reject(new Error(`rotunda serve exited with ${code}: ${errors}`)));
  });
}

export interface OpenedPage {
  page: Page;
  context: BrowserContext;
  /** What went wrong in the page by itself: thrown errors, refusals of the content security policy. */
  faults: string[];
  /** Every address that the page asked for. */
  requests: string[];
}

/** A browser of its own, signed in by a one-time link. */
export async function openPage(server: PageServer, options: BrowserContextOptions = {}): Promise<OpenedPage> {
  if (!browser) throw new Error("withBrowser() was not called");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  later(() => context.close());
  const opened = await openTab(context);
  await opened.page.goto(await server.link());
  await opened.page.locator("#main").waitFor();
  return opened;
}

/** Another tab of the same browser. */
export async function openTab(context: BrowserContext): Promise<OpenedPage> {
  const page = await context.newPage();
  const faults: string[] = [];
  const requests: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Trusted Type/i.test(message.text())) faults.push(message.text());
  });
  page.on("request", (request) => requests.push(request.url()));
  return { page, context, faults, requests };
}

/** Asks and waits until the question stands in the chat. */
/** What the page draws with these words: what a screen reader is told has the same words, a moment later. */
export function drawn(page: Page, words: string): Locator {
  return page.getByText(words).and(page.locator(":not([role=log] *)"));
}

export async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
  await page
    .locator(".asked", { hasText: text.slice(0, 40) })
    .last()
    .waitFor();
}
