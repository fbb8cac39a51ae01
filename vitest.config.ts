import { defineConfig } from "vitest/config";

export default defineConfig({
  define: { ROTUNDA_VERSION: JSON.stringify("0.0.0-test") },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    dangerouslyIgnoreUnhandledErrors: false,
    maxWorkers: 2,
  },
});
