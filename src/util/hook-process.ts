/** Runs a hook's command: JSON in, what it says out. Invariant: nothing that it started outlives it. */
import type { HookConfig } from "../types/config.ts";

export interface HookOutcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Seconds that a hook may take if it does not say. */
const TIMEOUT = 30;
const MAXIMUM_OUTPUT = 1_048_576;

export async function runHook(
  hook: HookConfig,
  input: string,
  workspace: string,
  signal: AbortSignal,
): Promise<HookOutcome> {
  const { startProcess } = await import("./process-tree.ts");
  const { childEnvironment } = await import("./sandbox.ts");
  const running = startProcess({
    command: "sh",
    args: ["-c", hook.command],
    cwd: workspace,
    env: childEnvironment(),
    stdio: ["pipe", "pipe", "pipe"],
  });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    running.child[name]?.setEncoding("utf8").on("data", (text: string) => {
      if (said[name].length < MAXIMUM_OUTPUT) said[name] += text;
    });
  }
  const kill = () => {
    running.kill().catch(() => undefined);
  };
  const timer = setTimeout(kill, (hook.timeout ?? TIMEOUT) * 1_000);
  signal.addEventListener("abort", kill, { once: true });
  // A hook that does not read its input closes the pipe early; that is its right.
  running.child.stdin?.on("error", () => undefined);
  running.child.stdin?.end(`${input}\n`);
  try {
    const { exitCode, error } = await running.ended;
    if (error) return { exitCode: 1, stdout: "", stderr: error.message };
    return { exitCode: exitCode ?? 1, ...said };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
  }
}
