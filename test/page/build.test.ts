/** What the build makes of the page: small, whole, and nothing in it that the policy forbids. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { hasBrowser, openPage, startPageServer, withBrowser } from "./support.ts";

const folder = fileURLToPath(new URL("../../dist/page", import.meta.url));

describe("the files of the page", () => {
  test("every file has its compressed forms, and every name but index.html tells its content", () => {
    const names = readdirSync(folder).filter((name) => !/\.(?:br|gz)$/.test(name));
    for (const name of names) {
      const bytes = readFileSync(join(folder, name));
      expect(brotliDecompressSync(readFileSync(join(folder, `${name}.br`))).equals(bytes)).toBe(true);
      expect(gunzipSync(readFileSync(join(folder, `${name}.gz`))).equals(bytes)).toBe(true);
      if (name !== "index.html" && !name.endsWith(".txt")) expect(name).toMatch(/-[A-Za-z0-9]{8}\.\w+$/);
    }
  });

  test("index.html has no script or style of its own, and names only files that are there", () => {
    const text = readFileSync(join(folder, "index.html"), "utf8");
    expect(text).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)|\son\w+=/);
    const files = [...text.matchAll(/\/page\/([^"]+)"/g)].map(([, name = ""]) => name);
    expect(files.length).toBeGreaterThan(3);
    for (const name of files) expect(existsSync(join(folder, name))).toBe(true);
  });

  test("no source of the page assigns HTML, and one module alone turns text into nodes", () => {
    const source = fileURLToPath(new URL("../../src/page", import.meta.url));
    const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
    const with_ = (pattern: RegExp) => files.filter((name) => pattern.test(readFileSync(join(source, name), "utf8")));
    expect(with_(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(/)).toEqual(
      [],
    );
    expect(with_(/from "dompurify"/)).toEqual(["markdown.ts"]);
    expect(with_(/\bstyle=\{/)).toEqual([]);
  });
});

describe.skipIf(!hasBrowser)("the first view", () => {
  withBrowser();

  test("loads at most 60 kB of compressed script, and from nowhere else", async () => {
    const server = await startPageServer([{ text: "Hi." }]);
    const { page, requests, faults } = await openPage(server);
    await page.locator(".welcome").waitFor();
    const scripts = [...new Set(requests)].filter((address) => address.endsWith(".js"));
    expect(scripts.length).toBeGreaterThan(0);
    const sizes = scripts.map((address) => readFileSync(join(folder, `${address.split("/").at(-1)}.br`)).length);
    const all = sizes.reduce((sum, size) => sum + size, 0);
    const ready = (await page.evaluate(
      "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd",
    )) as number;
    process.stdout.write(
      `the first view: ${all} bytes of compressed script, document ready after ${Math.round(ready)} ms\n`,
    );
    expect(all).toBeLessThanOrEqual(60_000);
    for (const address of requests) expect(address.startsWith(server.url)).toBe(true);
    expect(faults).toEqual([]);
  });
});
