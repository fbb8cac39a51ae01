import { defineConfig } from "vitest/config";
import type { Reporter } from "vitest/node";

/** Tests that passed only when repeated, and why they failed at first: each hides a race, of ours or of the test. */
const repeated: string[] = [];
const tellsRepeated: Reporter = {
  onTestCaseResult(test) {
    if (!test.diagnostic()?.flaky) return;
    const [error] = test.result().errors ?? [];
    const why = error ? `\n    ${error.message} ${error.stacks?.[0] ? `at line ${error.stacks[0].line}` : ""}` : "";
    repeated.push(`${test.module.relativeModuleId}: ${test.fullName}${why}`);
  },
  onTestRunEnd() {
    for (const name of repeated) process.stdout.write(`REPEATED: passed only at the second try: ${name}\n`);
  },
};

export default defineConfig({
  define: { ROTUNDA_VERSION: JSON.stringify("0.0.0-test") },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    dangerouslyIgnoreUnhandledErrors: false,
    maxWorkers: 2,
    reporters: ["default", tellsRepeated],
    // On machines that share their processors with others a test that races the clock loses now and then.
    retry: Number(process.env.ROTUNDA_TEST_RETRY ?? 0),
  },
});
