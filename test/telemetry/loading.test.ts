/** What a command loads, as Node itself tells: nothing of OpenTelemetry unless it is asked for. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { home } from "../cli/run.ts";
import { temporaryFolder } from "../support.ts";

/** Files of ours that a command has loaded, with their text. */
async function loaded(variables: NodeJS.ProcessEnv): Promise<string[]> {
  const folder = temporaryFolder();
  const at = home({ ...variables, NODE_V8_COVERAGE: folder, NODE_DISABLE_COMPILE_CACHE: "1" });
  expect(await at.run(["chat", "hello"])).toMatchObject({ code: 0 });
  const files = readdirSync(folder).flatMap((name) => {
    const { result } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { result: { url: string }[] };
    return result.map(({ url }) => url).filter((url) => url.includes("/dist/"));
  });
  expect(files.length).toBeGreaterThan(3);
  return files.map((url) => readFileSync(fileURLToPath(url), "utf8"));
}

test("nothing of OpenTelemetry is loaded unless it is asked for", async () => {
  const has = (texts: string[]) => texts.some((text) => text.includes("OTLPExporterError"));
  expect(has(await loaded({}))).toBe(false);
  // The test can fail: with an endpoint it is loaded.
  expect(has(await loaded({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" }))).toBe(true);
});
