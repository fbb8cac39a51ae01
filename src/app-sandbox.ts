/** What shuts in the processes that tools start; where there is nothing, people are told. */
import type { Notify } from "./types/event.ts";
import type { Sandbox } from "./util/sandbox.ts";

export async function openSandbox(level: "auto" | "required" | "none", notify: Notify): Promise<Sandbox> {
  const { detectSandbox } = await import("./util/sandbox.ts");
  const found = await detectSandbox(level);
  if (found.level === "none") {
    const text =
      "No sandbox on this machine: shell commands run unprotected, and ask unless a rule allows them (rotunda doctor)";
    notify({ responseId: null, level: "warn", topic: "tools", text });
  }
  return found;
}
