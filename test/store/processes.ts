/** Runs the store's test process. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { ChildWork } from "./child.ts";

export interface ChildEnd {
  signal: string | null;
  /** What it printed, if it came so far. */
  said: { answers?: string[]; id?: string; deleted?: boolean; done?: boolean } | undefined;
  /** Every line that it printed. */
  lines: object[];
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
      if (err !== "") return reject(new Error(err));
      const lines = out.split("\n").filter(Boolean);
      resolve({
        signal,
        said: lines.map((line) => JSON.parse(line)).at(-1),
        lines: lines.map((line) => JSON.parse(line)),
      });
    });
  });
}
