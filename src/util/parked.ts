/** The approver of whoever has nobody at hand, and lets a run wait in its process for an answer from any door. */
import type { Approver } from "../types/engine.ts";

/** Never answers. The run may as well wait elsewhere: the answer is in the store. */
export const parked: Approver = () => new Promise(() => undefined);
