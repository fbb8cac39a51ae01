/** Runs the store's test process. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { ChildWork } from "./child.ts";

export interface ChildEnd {
  signal: string | null;
  /** What it printed, if it came so far. */
  said: { answers?: string[]; id?: string; deleted?: boolean; done?: boolean } | undefined;
}

export async function runChild(work: ChildWork): Promise<ChildEnd> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "child.ts"), JSON.stringify(work)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  return new Promise((resolve, reject) => {
    child.on("close", (_code, signal) => {
      if (err !== "") reject(new Error(err));
      else resolve({ signal, said: out === "" ? undefined : (JSON.parse(out) as ChildEnd["said"]) });
    });
  });
}
