/**
 * What is signed: the key, and the states that a client hands back to us.
 *
 * Invariant: every process of a state directory signs with the same key, so each reads what another has signed.
 */
import { createHmac } from "node:crypto";
import { createRequestStateCodec, type RequestStateCodec } from "@modelcontextprotocol/server";
import type { McpCaller } from "../../types/mcp.ts";
import { ensureLocalToken } from "../../util/local-token.ts";
import type { Pending } from "./asking.ts";

/** 32 bytes that follow from the local token. */
export function signingKey(stateDirectory: string): Buffer {
  return createHmac("sha256", ensureLocalToken(stateDirectory)).update("mcp").digest();
}

/**
 * A state holds for the owner that it was made for, and for as long as a person may take. The key is asked for with the
 * first state: most connections have none, and Web Crypto takes time to load.
 */
export function codecOf(key: () => Uint8Array, caller: McpCaller): RequestStateCodec<Pending> {
  let made: RequestStateCodec<Pending> | undefined;
  const codec = () => {
    made ??= createRequestStateCodec<Pending>({ key: key(), ttlSeconds: 7 * 24 * 3_600, bind: () => caller.owner });
    return made;
  };
  return {
    mint: async (...given) => codec().mint(...given),
    verify: async (...given) => codec().verify(...given),
  };
}
