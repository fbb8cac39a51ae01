/**
 * The mount tables of this machine, as the kernel tells them.
 *
 * Invariant: reading changes nothing; what cannot be read counts as empty.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { namesIn } from "./secret-paths.ts";

/** The mount points of every other namespace that we may look into. */
export function mountedElsewhere(): Set<string> {
  const seen = new Set([namespaceOf("self")]);
  const paths = new Set<string>();
  for (const pid of namesIn("/proc")) {
    if (!/^\d/.test(pid)) continue;
    const namespace = namespaceOf(pid);
    if (namespace === undefined || seen.has(namespace)) continue;
    seen.add(namespace);
    for (const { path } of readMounts(pid)) paths.add(path);
  }
  return paths;
}

function namespaceOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

export interface MountEntry {
  path: string;
  /** As `mount -o` takes them: `rw`, `nosuid` … */
  options: string[];
}

/** The mount table of a process. */
export function readMounts(pid = "self"): MountEntry[] {
  try {
    const rows = readFileSync(`/proc/${pid}/mountinfo`, "utf8").trimEnd().split("\n");
    return rows.map((row) => {
      const fields = row.split(" ");
      const path = (fields[4] ?? "").replace(/\\([0-7]{3})/g, (_, octal: string) =>
        String.fromCharCode(Number.parseInt(octal, 8)),
      );
      return { path, options: (fields[5] ?? "").split(",") };
    });
  } catch {
    return [];
  }
}
