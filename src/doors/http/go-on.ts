/**
 * Going on with responses: after an answer, after a cut.
 *
 * Invariant: a response is run by the app of its own directory and configuration, never by another one's, and counts
 * among its owner's runs until it has ended.
 */
import type { App } from "../../types/app.ts";
import type { Approval } from "../../types/approval.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { Store } from "../../types/store.ts";
import { parked } from "../../util/parked.ts";
import type { Services } from "./services.ts";

/** Responses that are looked at together. */
const PAGE = 1_000;

function appOf({ appFor }: Services, { workspace, settings }: ResponseNode): Promise<App> {
  return appFor(workspace, settings.configuration);
}

/**
 * After an answer: what waited for it goes on, or its child is started. Undefined where it runs already, here or in
 * another process, or where answers are still missing.
 */
export async function goOn(services: Services, approval: Approval): Promise<ResponseNode | undefined> {
  const { app, limits } = services;
  const node = await app.store.node(approval.responseId);
  const own = node ? await appOf(services, node) : app;
  const running = await own.engine.goOn(approval.id);
  if (running) limits.holdRun(running.owner, own.engine.wait(running.id));
  return running;
}

/** All that wait for a budget which was raised or has begun anew. Resolves with how many go on. */
export async function goOnWithinBudgets(services: Services): Promise<number> {
  let count = 0;
  for await (const node of waitingNodes(services.app.store)) {
    if (node.caller || node.error?.code !== "budget_reached") continue;
    const own = await appOf(services, node);
    // Another process may be quicker.
    const running = await own.engine.upkeep.goOnWithinBudget(node.id, parked).catch(() => undefined);
    if (!running) continue;
    count++;
    services.limits.holdRun(running.owner, own.engine.wait(running.id));
  }
  return count;
}

async function* waitingNodes(store: Store): AsyncGenerator<ResponseNode> {
  for (let before: string | undefined; ; ) {
    const page = await store.list({ status: ["waiting"], limit: PAGE, ...(before !== undefined && { before }) });
    yield* page;
    before = page.at(-1)?.id;
    if (page.length < PAGE || before === undefined) return;
  }
}

/** Resolves with the response that runs then. Throws what the engine throws. */
export async function resume(services: Services, node: ResponseNode): Promise<{ node: ResponseNode; app: App }> {
  const app = await appOf(services, node);
  return { node: await app.engine.resume(node.id, parked), app };
}
