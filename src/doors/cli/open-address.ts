/**
 * Open address: a web address in the person's browser.
 *
 * Invariant: the address is one argument of a program that is started without a shell, and it is an http or https
 * address; so nothing that a server has written into it is ever a command.
 */
import { spawn } from "node:child_process";

/** Whether a browser was asked to open it; a machine without one is no error. */
export function openAddress(address: string, platform: NodeJS.Platform = process.platform): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, href } = new URL(address);
  if (protocol !== "https:" && protocol !== "http:") return false;
  const [command, ...before] = opener(platform);
  const child = spawn(command, [...before, href], { stdio: "ignore", detached: true, shell: false });
  // There may be no such program: the address is printed as well.
  child.once("error", () => undefined);
  child.unref();
  return true;
}

function opener(platform: NodeJS.Platform): [string, ...string[]] {
  if (platform === "darwin") return ["open"];
  // `start` is a word of cmd.exe, and would read `&` as its own.
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  return ["xdg-open"];
}
