/**
 * Three workers as processes of their own, one of which is killed every second and replaced.
 *
 * Invariant: there are always two that live; what they run is what a server on the same database has accepted.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));
const COUNT = 3;
/** Milliseconds between two kills. */
const PAUSE = 1_000;

export interface KilledWorkers {
  stop(): Promise<void>;
}

export async function startKilledWorkers(cwd: string, env: NodeJS.ProcessEnv): Promise<KilledWorkers> {
  const workers: ChildProcess[] = [];
  const start = async (): Promise<ChildProcess> => {
    const child = spawn(process.execPath, [program, "worker", "--concurrency", "16"], {
      cwd,
      env,
      stdio: ["ignore", "pipe", process.env.ROTUNDA_TEST_VERBOSE ? "inherit" : "ignore"],
    });
    workers.push(child);
    await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
    return child;
  };
  await Promise.all(Array.from({ length: COUNT }, start));
  const stopping = new AbortController();
  const killing = (async () => {
    for (;;) {
      await sleep(PAUSE, undefined, { signal: stopping.signal });
      workers.shift()?.kill("SIGKILL");
      const { ROTUNDA_TEST_KILLS: told } = process.env;
      // One line for each, for whoever wants to know how many there were.
      if (told) appendFileSync(told, "kill\n");
      await start();
    }
  })().catch(() => undefined);
  return {
    async stop() {
      stopping.abort();
      await killing;
      const exits = workers.filter((one) => one.exitCode === null && one.signalCode === null);
      await Promise.all(
        exits.map((child) => {
          const exit = once(child, "exit");
          child.kill("SIGKILL");
          return exit;
        }),
      );
    },
  };
}
