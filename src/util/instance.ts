/**
 * Instance: a name for this state directory on this machine, sent with every request to a model.
 *
 * Invariant: it tells nothing of what it was made of; a server that is asked under its own name has been configured as
 * its own model, and refuses, so that one question never becomes thousands.
 */
import { hash } from "node:crypto";
import { hostname } from "node:os";
import { readLocalToken } from "./local-token.ts";

export const INSTANCE_HEADER = "x-rotunda-instance";

/** 16 hexadecimal digits. */
export function instanceOf(stateDirectory: string): string {
  return hash("sha256", `${hostname()}\n${stateDirectory}`).slice(0, 16);
}

/** By what a Rotunda knows its own server among endpoints. */
export function ownServer(stateDirectory: string): { instance: string; ownKey: string | undefined } {
  return { instance: instanceOf(stateDirectory), ownKey: readLocalToken(stateDirectory) };
}
