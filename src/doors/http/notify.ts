/**
 * The notify command: a shell command of the operator's that is told what webhooks are told, as JSON on its stdin.
 *
 * Invariant: it runs beside everything else and holds up no response; after 30 seconds it is ended, and all that it has
 * started with it. A command that fails is not run again.
 */
import { hash } from "node:crypto";
import { toRotundaError } from "../../types/error.ts";
import { runHook } from "../../util/hook-process.ts";
import { eventBody, type Outcome, type Target } from "./webhooks.ts";

/** Seconds. */
const TIME_OUT = 30;

/** `workspace`: the directory that it runs in. */
export function notifyTarget(command: string, workspace: string): Target {
  return {
    target: hash("sha256", `notify\n${workspace}\n${command}`),
    events: null,
    name: "notify command",
    async deliver(event, signal): Promise<Outcome> {
      const body = eventBody(event);
      const began = performance.now();
      try {
        const { exitCode, stderr } = await runHook({ command, timeout: TIME_OUT }, body, workspace, signal);
        if (signal.aborted) return { done: false, why: "the server is shutting down", again: true };
        if (exitCode === 0) return { done: true };
        const late = performance.now() - began >= TIME_OUT * 1_000;
        const why = late ? `took longer than ${TIME_OUT} seconds` : `exit code ${exitCode} ${stderr.trim()}`;
        return { done: false, why: why.slice(0, 300), again: false };
      } catch (thrown) {
        return { done: false, why: toRotundaError(thrown).message, again: false };
      }
    },
  };
}
