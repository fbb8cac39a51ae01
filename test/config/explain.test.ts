/** What is said of a configuration file with a mistake: the line, what stands there, what may, what was meant. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { RotundaError } from "../../src/types/error.ts";
import { nearName } from "../../src/util/near-name.ts";
import { temporaryFolder } from "../support.ts";

/** What is said of a file of that name and content, without the folder. */
async function said(name: string, content: string): Promise<string> {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  mkdirSync(workspace);
  writeFileSync(join(workspace, name), content);
  const environment = { HOME: root, ROTUNDA_HOME: join(root, "state") };
  const thrown: unknown = await loadConfig({ workspace, environment }).catch((error: unknown) => error);
  if (!(thrown instanceof RotundaError)) return "nothing";
  expect(thrown.code).toBe("config_invalid");
  return thrown.message.replaceAll(`${workspace}/`, "");
}

const MODELS = "models:\n  - id: main\n    baseUrl: http://127.0.0.1:9/v1\n";

test.each([
  ["modles: []\n", "1: there is no key modles at the top: did you mean models?"],
  ["models:\n  - id: main\n    baseURL: http://x\n", "3: there is no key baseURL in models[0]: did you mean baseUrl?"],
  ["models:\n  - id: main\n", "2: models[0].baseUrl is missing: a text"],
  [`${MODELS}    retries: many\n`, '4: models[0].retries is "many"; it can be a number'],
  [`${MODELS}    retries: -1\n`, "4: models[0].retries is -1; it can be a number from 0 on"],
  [`${MODELS}    apiKey: 1234567\n`, "4: models[0].apiKey is a number; it can be a text"],
  [
    "permissions:\n  mode: aks\n",
    '2: permissions.mode is "aks"; it can be ask, accept-edits, plan or auto; did you mean ask?',
  ],
  ["profiles:\n  p: { tools: read }\n", '2: profiles.p.tools is "read"; it can be a list'],
  ["profiles:\n  p:\n    limits: { trns: 3 }\n", "3: there is no key trns in profiles.p.limits: did you mean turns?"],
  ["profiles: { a b: {} }\n", "1: profiles.a b: a name is made of letters, digits, _ and - (agents: . as well)"],
  [
    "hooks:\n  beforeToolCall:\n    - comand: x\n",
    "3: there is no key comand in hooks.beforeToolCall[0]: did you mean command?",
  ],
  ["hooks: { beforeToolCall: [3] }\n", "1: hooks.beforeToolCall[0] is 3; it can be a text or a map"],
  ["keep: 5x\n", '1: keep is "5x"; it can be something else: it reads 90m, 12h, 30d, 4w, 1y or forever'],
  ["sandbox: { zzzzzzzz: 1 }\n", "1: there is no key zzzzzzzz in sandbox; known there: level, network"],
])("%j", async (content, message) => {
  expect(await said("rotunda.yaml", content)).toBe(`rotunda.yaml:${message}`);
});

test("several mistakes: a line for each, and the page with all keys as the remedy", async () => {
  const message = await said("rotunda.yaml", `${MODELS}    retries: many\n    modell: x\nkeeep: 30d\n`);
  expect(message.split("\n")).toEqual([
    'rotunda.yaml:4: models[0].retries is "many"; it can be a number',
    "rotunda.yaml:5: there is no key modell in models[0]: did you mean model?",
    "rotunda.yaml:6: there is no key keeep at the top: did you mean keep?",
  ]);
  const { keysRemedy } = await import("../../src/config/explain.ts");
  expect(keysRemedy()).toMatch(/^Every key is explained in \/.*docs\/configuration\.md$/);
});

test("the line in JSON with comments, and in another program's shape", async () => {
  const jsonc = '{\n  /* a\n     b */\n  "models": [],\n  "keeep": "30d",\n}\n';
  expect(await said("rotunda.jsonc", jsonc)).toBe(
    "rotunda.jsonc:5: there is no key keeep at the top: did you mean keep?",
  );
  const servers = '{\n  "servers": {\n    "a": {\n      "command": "x",\n      "timeout": -1\n    }\n  }\n}\n';
  expect(await said(".mcp.json", servers)).toBe(".mcp.json:5: mcpServers.a.timeout is -1; it can be a number above 0");
});

test.each([
  ["rotunda.yaml", 'a: "x\nb: 2\n', "1:4: this quotation mark is not closed"],
  [
    "rotunda.yaml",
    "a:\n  b: 1\n c: 2\n",
    "3:1: this line does not begin in the same column as those that it belongs to",
  ],
  ["rotunda.yaml", "x:\n\ty: 1\n", "2:1: the line begins with a tab: spaces must stand there"],
  ["rotunda.yaml", "a: {b: 1\n", "1:4: this { is not closed"],
  ["rotunda.yaml", "a: 1\na: 2\n", "2:1: this key stands here for the second time"],
  ["rotunda.json", '{"a": 1,\n "b": @x}', '2:7: "@" cannot stand here: texts stand in double quotes'],
  ["rotunda.json", '{"a": 1\n "b": 2}', "2:2: a comma or } is missing before this place"],
  ["rotunda.json", '{"a": [1\n', "1:9: a comma or ] is missing before this place"],
  ["rotunda.json", '{\n "a": "x', "2:9: a text is not closed with its quotation mark"],
])("%s that cannot be parsed: %j", async (name, content, message) => {
  expect(await said(name, content)).toBe(`${name}:${message}`);
});

test("a near name is near", () => {
  expect(nearName("raed", ["write", "read"])).toBe("read");
  expect(nearName("baseURL", ["baseUrl"])).toBe("baseUrl");
  expect(nearName("dwon", ["down", "docs"])).toBe("down");
  expect(nearName("zz", ["general", "plan"])).toBeUndefined();
});
