/**
 * Loaded before a server (`--expose-gc --import`): on SIGUSR2 it collects garbage and adds a line to a file: how much is
 * left, and what keeps the process alive.
 */
import { appendFileSync } from "node:fs";

process.on("SIGUSR2", () => {
  const { gc } = globalThis as { gc?: () => void };
  // What is freed by a finalizer in the first one is gone with the second.
  gc?.();
  setTimeout(() => {
    gc?.();
    const { heapUsed, rss } = process.memoryUsage();
    const line = { heapUsed, rss, resources: process.getActiveResourcesInfo() };
    appendFileSync(process.env.RELIABILITY_METER ?? "", `${JSON.stringify(line)}\n`);
  }, 50).unref();
});
