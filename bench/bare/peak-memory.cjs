/** Loaded before a program (`--require`): writes the peak of its memory, as the kernel saw it, when it ends. */
const { readFileSync, writeFileSync } = require("node:fs");

process.on("exit", () => {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
  writeFileSync(process.env.BENCH_PEAK, kilobytes);
});
