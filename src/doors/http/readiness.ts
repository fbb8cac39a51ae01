/**
 * Whether a store can be asked.
 *
 * Invariant: there is an answer within two seconds, whatever the store does.
 */
import type { Store } from "../../types/store.ts";

/** Milliseconds in which a store that is well has answered. */
const PATIENCE = 2_000;

/** Undefined: it answers. Else what is wrong, as one word. */
export async function storeFault(store: Store): Promise<string | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<string>();
  const timer = setTimeout(() => resolve("store_slow"), PATIENCE);
  try {
    return await Promise.race([late, store.token("000000000000").then(() => undefined)]);
  } catch {
    return "store_failed";
  } finally {
    clearTimeout(timer);
  }
}
