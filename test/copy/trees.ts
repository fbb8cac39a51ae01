/** A database with everything in it that a copy must bring along, and what must be the same in another one. */
import type { Engine } from "../../src/types/engine.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended } from "../store/support.ts";
import { callOf, engineWith, modelOf, say, toolOf } from "../support.ts";

/** What no database takes easily: U+0000, halves of surrogate pairs, U+0001 at the beginning. */
export const STRANGE = "\u0001 a\u0000b \ud83d c \udc00 ü 🜂";
const IMAGE = "data:image/png;base64,iVBORw0KGgo=";
const LONG = `${"0123456789".repeat(2_000)}${STRANGE}`;

export const start = { door: "test", workspace: "/work", input: "go" };

export interface Tree {
  /** In the order in which they were made. */
  root: string;
  /** With an output that was cut. */
  withCall: string;
  /** Deleted, and needed by `head`. */
  gone: string;
  head: string;
  /** Another child of `root`. */
  branch: string;
  subAgent: string;
  /** Deleted, and nothing needs it. */
  erased: string;
  /** Has not ended; below it a sub-agent that has. */
  open: string;
  openSubAgent: string;
  conversation: string;
  /** Stands at the open one. */
  openConversation: string;
}

export async function engineOn(store: Store, answers: Parameters<typeof modelOf>[0]): Promise<Engine> {
  const tool = toolOf("look", async () => ({ text: LONG }));
  return (await engineWith({ store, model: modelOf(answers), toolList: [tool] })).engine;
}

export async function grow(store: Store): Promise<Tree> {
  const answers = [say("first"), callOf(["look", {}]), say(`saw it ${STRANGE}`), say("third"), say("fourth"), say("b")];
  const engine = await engineOn(store, answers);
  const turn = async (input: Parameters<Engine["start"]>[0]) => {
    const { id } = await engine.start(input);
    await engine.wait(id);
    return id;
  };
  const content = [
    { type: "input_text" as const, text: `look ${STRANGE}` },
    { type: "input_image" as const, image_url: IMAGE },
  ];
  const conversationName = "work";
  const item = {
    type: "message" as const,
    id: newId("msg"),
    role: "user" as const,
    status: "completed" as const,
    content,
  };
  const root = await turn({ ...start, input: [item], conversationName });
  const conversation = (await store.conversation("work"))?.id ?? "";
  const next = { ...start, conversation };
  const withCall = await turn(next);
  const gone = await turn(next);
  const head = await turn(next);
  const branch = await turn({ ...start, previousResponseId: root });
  const call = (await store.get(withCall))?.entries.find((entry) => entry.item.type === "mcp_call")?.item.id ?? "";
  const { node } = await begin(store, { caller: { responseId: withCall, itemId: call }, depth: 1 });
  const approval = approvalOf(node.id, { status: "allowed", decidedAt: 5, decidedBy: "terminal" });
  await store.append(batchOf(node.id, { approvals: [approval] }), true);
  await end(store, node.id, "from below");
  const erased = await ended(store, { previousResponseId: branch });
  const waiting = conversationOf({ name: "waiting" });
  const open = (await begin(store, { conversation: waiting })).node.id;
  const openSubAgent = await ended(store, { caller: { responseId: open, itemId: newId("mcp") }, depth: 1 });
  await store.delete(gone);
  await store.delete(erased);
  const rest = { open, openSubAgent, conversation, openConversation: waiting.id };
  return { root, withCall, gone, head, branch, subAgent: node.id, erased, ...rest };
}

/** Everything that doors ask for, of some responses. */
export async function view(store: Store, ids: readonly string[]): Promise<unknown[]> {
  return Promise.all(
    ids.map(async (id) => {
      const found = await store.get(id);
      const calls = found?.entries.flatMap(({ item }) => (item.type === "mcp_call" ? [item.id] : [])) ?? [];
      const outputs = await Promise.all(calls.map(async (call) => (await store.output(call))?.toWellFormed()));
      const path = (await store.path(id)).map(({ node, entries }) => ({ node, entries }));
      return {
        found,
        outputs,
        path,
        events: await allEvents(store, id),
        approvals: await store.approvals({ responseId: id }),
      };
    }),
  );
}

async function allEvents(store: Store, id: string): Promise<RunEvent[]> {
  const events = await store.events(id, -1, 10_000);
  // A stream can be taken up again anywhere in it.
  const half = Math.floor(events.length / 2);
  return [...events.slice(0, half), ...(await store.events(id, half - 1, 10_000))];
}
