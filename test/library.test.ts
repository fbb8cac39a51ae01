/** Rotunda as a library. */
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createRotunda, type Notice, type Rotunda, type RotundaOptions } from "../src/index.ts";
import { createScriptedModel } from "../src/testing/scripted-model.ts";
import { callOf, later, modelOf, say, temporaryFolder, toolOf } from "./support.ts";

async function rotunda(options: RotundaOptions): Promise<Rotunda> {
  const root = temporaryFolder();
  mkdirSync(join(root, "work"));
  const environment = { HOME: root, PATH: process.env.PATH };
  const made = await createRotunda({
    workspace: join(root, "work"),
    stateDirectory: join(root, "state"),
    environment,
    ...options,
  });
  later(() => made.close());
  return made;
}

test("N23 chat(message, history) gives the answer and the history to go on with", async () => {
  const model = createScriptedModel([{ text: "Paris" }, { text: "Two million" }]);
  const made = await rotunda({ models: [model] });
  const first = await made.chat("Capital of France?");
  expect(first).toEqual({
    response: "Paris",
    history: [
      { role: "user", content: "Capital of France?" },
      { role: "assistant", content: "Paris" },
    ],
  });
  const second = await made.chat("How many people?", first.history);
  expect(second.history).toHaveLength(4);
  const told = model.requests[1]?.history.flatMap((node) => node.entries);
  expect(told).toHaveLength(3);
});

test("a run with a tool of one's own, watched, logged for itself, branched and cancelled", async () => {
  const weather = toolOf("weather", async ({ city }) => ({ text: `sunny in ${city}` }));
  const model = modelOf([callOf(["weather", { city: "Rome" }]), say("It is sunny."), say("Again.")]);
  const made = await rotunda({ models: [model], tools: [weather] });
  const types: string[] = [];
  const heard: Notice[] = [];
  const { text, response } = await made.run("Weather?", {
    onEvent: (event) => types.push(event.type),
    logger: (notice) => heard.push(notice),
  });
  expect(text).toBe("It is sunny.");
  expect(response.output[0]).toMatchObject({ type: "mcp_call", name: "weather", output: "sunny in Rome" });
  expect(types[0]).toBe("response.created");
  expect(types.at(-1)).toBe("response.completed");
  expect(heard.every((notice) => notice.responseId === response.id)).toBe(true);
  const branch = await made.run("And now?", { from: response.id.slice(-8) });
  expect(branch.response.previousResponseId).toBe(response.id);
  await expect(made.run("x", { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "cancelled" });
  await expect(made.run("x", { model: "nobody" })).rejects.toMatchObject({ code: "model_not_found" });
});

test("its types need nobody else's, not even Node's", () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const folder = temporaryFolder();
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "rotunda"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  const program = [
    'import { createRotunda, type Tool } from "rotunda";',
    "export const tools: Tool[] = [];",
    'export const text: string = (await (await createRotunda({ tools })).run("x")).text;',
    "// @ts-expect-error: it is checked at all.",
    "export const wrong: number = text;",
  ];
  writeFileSync(join(folder, "program.ts"), program.join("\n"));
  const words = "--noEmit --strict --ignoreConfig --module nodenext --target es2024 --lib es2024,esnext,dom --types";
  const compiler = join(root, "node_modules/typescript/lib/tsc.js");
  const { stdout } = spawnSync(process.execPath, [compiler, ...words.split(" "), "", "program.ts"], {
    cwd: folder,
    encoding: "utf8",
  });
  expect(stdout).toBe("");
});
