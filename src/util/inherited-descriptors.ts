/**
 * Inherited descriptors: what whoever started us left open.
 *
 * Invariant: no child gets them; a folder among them would lead out of any sandbox.
 */
import type { SpawnOptions } from "node:child_process";
import { closeSync, constants, openSync, readdirSync, readFileSync } from "node:fs";

const CLOSE_ON_EXEC = 0o2000000;
type Stdio = NonNullable<SpawnOptions["stdio"]>;

let inherited: readonly number[] | undefined;

/**
 * Descriptors that whoever started us left open, and that our children would be given: Node closes those in the first
 * gap of numbers only. A folder among them leads out of any sandbox.
 */
function inheritedDescriptors(): readonly number[] {
  try {
    return readdirSync("/proc/self/fdinfo")
      .map(Number)
      .filter((fd) => fd > 2 && isInherited(fd));
  } catch {
    return [];
  }
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    return false;
  }
}

/** In the child, `/dev/null` takes the place of each. What we open ourselves is closed by the kernel. */
export function withoutInherited(stdio: Stdio): { stdio: Stdio; close(): void } {
  inherited ??= inheritedDescriptors();
  const given = typeof stdio === "string" ? [stdio, stdio, stdio] : [...stdio];
  const open = inherited.filter((fd) => fd >= given.length);
  const highest = open.at(-1) === undefined ? 0 : Math.max(...open);
  if (highest === 0) return { stdio, close: () => undefined };
  const nothing = openSync("/dev/null", constants.O_RDONLY);
  for (let fd = given.length; fd <= highest; fd++) given.push(open.includes(fd) ? nothing : "ignore");
  return { stdio: given, close: () => closeSync(nothing) };
}
