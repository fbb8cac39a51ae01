/** OAuth parts: what requests for tokens have in common. */
import type { OAuthConfig } from "../types/config.ts";

/** A client that signs instead of knowing a secret (private_key_jwt). */
export async function clientAuthentication({ clientId, privateKey, algorithm: alg = "ES256" }: OAuthConfig) {
  if (clientId === undefined || privateKey === undefined) return {};
  const { createPrivateKeyJwtAuth } = await import("@modelcontextprotocol/client");
  const addClientAuthentication = createPrivateKeyJwtAuth({ issuer: clientId, subject: clientId, privateKey, alg });
  return { addClientAuthentication };
}

/** Distinct words of both, in the order in which they came. */
export function scopes(...texts: (string | undefined)[]): { scope?: string } {
  const words = new Set(texts.flatMap((text) => text?.split(" ") ?? []).filter((word) => word !== ""));
  return words.size === 0 ? {} : { scope: [...words].join(" ") };
}
