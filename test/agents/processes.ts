/** The processes that were started with a test's own home folder: none is left when a test is done. */
import { readdirSync, readFileSync } from "node:fs";
import type { Place } from "../app/support.ts";

export function processesOf({ root }: Pick<Place, "root">): number[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
      return environment.includes(`HOME=${root}/home`) ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });
}
