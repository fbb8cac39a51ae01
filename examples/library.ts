/**
 * Rotunda as a library: a tool and a model of the program's own, two turns that are watched, a branch, and
 * notion-open-agent's `chat`. Run it with Node 24 in a checkout that is built: `node examples/library.ts`.
 *
 * It needs no key: the model is a script. Take the `models` line out, and a real one answers.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRotunda, type Tool } from "rotunda";
import { createScriptedModel } from "rotunda/testing";

const stock: Tool = {
  name: "stock",
  server: "shop",
  serverName: "stock",
  description: "How many pieces of an article are in stock.",
  input: { type: "object", properties: { article: { type: "string" } }, required: ["article"] },
  access: "read",
  repeatable: true,
  run: async ({ article }, context) => {
    context.progress(`counting ${article}`);
    return { text: `${article}: 12 pieces` };
  },
};

/** Asks for the stock first, then says what it was told. */
const model = createScriptedModel((request) => {
  const said = JSON.stringify(request.history.at(-1)?.entries ?? []);
  if (said.includes("How many") && !said.includes("12 pieces")) {
    return { calls: [{ name: "stock", arguments: { article: "teapots" } }] };
  }
  return said.includes("12 pieces") ? "There are 12 teapots." : `I was told ${request.history.length} things so far.`;
});

const workspace = mkdtempSync(join(tmpdir(), "rotunda-example-"));
const print = (text: string) => process.stdout.write(`${text}\n`);
const rotunda = await createRotunda({
  workspace,
  stateDirectory: join(workspace, "state"),
  tools: [stock],
  models: [model],
});
try {
  const first = await rotunda.run("How many teapots do we have?", {
    onEvent: (event) => {
      if (event.type === "response.output_item.done") print(`event ${event.sequence_number}: ${event.item.type}`);
    },
    logger: (notice) => print(`news: ${notice.text}`),
  });
  print(`answer: ${first.text}`);
  print(`status: ${first.response.status}, model calls: ${first.response.turns}`);

  // The same parent twice: two branches of one tree.
  const { id } = first.response;
  const branches = await Promise.all([
    rotunda.run("Order more.", { from: id }),
    rotunda.run("Sell some.", { from: id }),
  ]);
  print(`branches: ${branches.every(({ response }) => response.previousResponseId === id)}`);

  const { response, history } = await rotunda.chat("And now?", [
    { role: "user", content: "Hello" },
    { role: "assistant", content: "Good day." },
  ]);
  print(`chat: ${response} (${history.length} messages)`);
} finally {
  await rotunda.close();
  rmSync(workspace, { recursive: true, force: true });
}
