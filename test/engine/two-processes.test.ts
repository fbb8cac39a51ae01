import { expect, test } from "vitest";
import { engineWith, modelOf, say, temporaryFolder } from "../support.ts";

const start = { input: "go", workspace: "/", door: "test" };

test("two processes begin turns of one conversation at once: none is lost from it", async () => {
  const folder = temporaryFolder();
  const engines = [
    await engineWith({ model: modelOf([say("one")]), folder }),
    await engineWith({ model: modelOf([say("two")]), folder }),
  ];
  const [first] = engines;
  const root = await first?.engine.start(start);
  await first?.engine.wait(root?.id ?? "");
  const conversation = root?.conversationId ?? "";
  const turns = Array.from({ length: 12 }, (_, index) => engines[index % 2]).map(async (one) => {
    const node = await one?.engine.start({ ...start, conversation, queue: true });
    await one?.engine.wait(node?.id ?? "");
  });
  await Promise.all(turns);
  const head = (await first?.store.conversation(conversation))?.head ?? "";
  expect(await first?.store.path(head)).toHaveLength(13);
});
