/**
 * Writes to a store, one turn after the other, and says after each answer that it came: a line on file descriptor 3.
 * Arguments: the database file, the number of turns. Its system calls are what a power cut is simulated from.
 */
import { writeSync } from "node:fs";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Entry, Item } from "../../src/types/item.ts";
import type { ResponseNode } from "../../src/types/response.ts";
import { newId } from "../../src/util/ids.ts";

const [, , path = "", turns = "1"] = process.argv;
const store = await openSqliteStore(path);

function node(): ResponseNode {
  const none = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  return {
    id: newId("resp"),
    owner: "local",
    previousResponseId: null,
    caller: null,
    depth: 0,
    conversationId: null,
    profile: "general",
    model: "m",
    status: "in_progress",
    incompleteReason: null,
    error: null,
    degraded: false,
    usage: { ...none, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } },
    settings: {},
    workspace: "/",
    door: "test",
    createdAt: Date.now(),
    endedAt: null,
    waited: 0,
    ran: 0,
    restarts: 0,
    hash: null,
  };
}

for (let turn = 0; turn < Number(turns); turn++) {
  const made = node();
  const text = `answer ${turn} `.repeat(1 + (turn % 60));
  const content = [{ type: "input_text" as const, text }];
  const item: Item = { type: "message", id: newId("msg"), role: "user", status: "completed", content };
  const input: Entry[] = [{ side: "input", position: 0, turn: 0, item, meta: {} }];
  const events: RunEvent[] = [{ type: "response.created", sequence_number: 0 }];
  await store.create({ node: made, input, events, process: "gone/1/1/a", conversation: null });
  writeSync(3, `made ${made.id}\n`);
  await store.append(
    {
      responseId: made.id,
      fence: 1,
      sealed: false,
      events: [{ type: "response.completed", sequence_number: 1, status: "completed" }],
      entries: [],
      outputs: [],
      approvals: [],
      audits: [],
      node: { status: "completed", endedAt: Date.now() },
    },
    true,
  );
  writeSync(3, `ended ${made.id}\n`);
}
// Cut off, not closed: what is only tidied up at the end is not what is promised.
process.kill(process.pid, "SIGKILL");
