/** Further attacks: recovery of a burst, broken parts, rules across workspaces, hidden files that move. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { createProfiles } from "../../src/profiles/profiles.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { createBuiltinTools } from "../../src/tools/builtin.ts";
import type { Approver } from "../../src/types/engine.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { visible } from "../../src/util/text.ts";
import { home } from "../cli/run.ts";
import {
  callOf,
  collect,
  engineWith,
  later,
  modelOf,
  say,
  temporaryFolder,
  temporaryStore,
  toolOf,
} from "../support.ts";

const start = { door: "test", workspace: "/", input: "go" };
const ask = { allow: [], ask: [], deny: [], mode: "ask" as const };

test("killed while an answer came in bursts, a response can be resumed", async () => {
  const upstream = await startUpstream([
    {
      write: [
        ["one ", "two "]
          .map(
            (content) =>
              `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`,
          )
          .join(""),
      ],
      headers: { "content-type": "text/event-stream" },
      break: "hang",
    },
    { text: "whole" },
  ] as never);
  later(() => upstream.close());
  const place = home({
    OPENAI_API_KEY: "sk-test-1234567",
    OPENAI_BASE_URL: `${(upstream as unknown as { url: string }).url}`,
    OPENAI_MODEL: "m",
  });
  const first = place.start(["chat", "hello"]);
  await expect.poll(first.out, { timeout: 10_000 }).toContain("two");
  first.child.kill("SIGKILL");
  await first.result;
  const second = await place.run(["resume"]);
  expect(second.err).not.toContain("is not stored");
  expect(second.code).toBe(0);
});

test("a burst of a running answer can be watched from another process", async () => {
  const folder = temporaryFolder();
  const model = modelOf([
    async function* (_request, signal) {
      yield { type: "text", delta: "one " };
      yield { type: "text", delta: "two " };
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 400);
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve(0)));
      });
      yield { type: "finish", reason: "stop" };
    },
  ]);
  const { engine } = await engineWith({ folder, model });
  const other = await engineWith({ store: await temporaryStore({}, folder) });
  const { id } = await engine.start(start);
  await expect.poll(() => model.requests.length).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 100));
  // Another process would see an owner that lives; here it is enough to read what is stored.
  expect((await other.store.events(id, -1, 500)).length).toBeGreaterThan(3);
  await collect(engine.watch(id));
});

test("'always' in one workspace is not 'always' in every other", async () => {
  let asked = 0;
  const effects: string[] = [];
  const write = toolOf("write", async (_input, context) => (effects.push(context.workspace), { text: "ok" }), {
    access: "write",
    subject: async (_input, workspace) => ({ paths: [join(workspace, "config")], inside: true }),
  });
  const approver: Approver = async () => (asked++, { decision: "allow", scope: "always", by: "t" });
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", {}]), say("a"), callOf(["write", {}]), say("b")]),
    toolList: [write],
    permissions: ask,
  });
  for (const workspace of [temporaryFolder(), temporaryFolder()]) {
    const { id } = await engine.start({ ...start, workspace, approver });
    await engine.wait(id);
  }
  expect(effects).toHaveLength(2);
  expect(asked).toBe(2);
});

test("two questions at the same time are one wait", async () => {
  let clock = 1_000_000_000_000;
  const peek = toolOf("peek", async () => ({ text: "x" }), {
    subject: async () => ({ paths: ["/etc/x"], inside: false }),
  });
  let open = 0;
  const approver: Approver = async () => {
    open++;
    while (open < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    clock += 1;
    if (clock % 2 === 1) clock += 99_999;
    await new Promise((resolve) => setTimeout(resolve, 30));
    return { decision: "allow", by: "t" };
  };
  const { engine } = await engineWith({
    model: modelOf([callOf(["peek", { n: 1 }], ["peek", { n: 2 }]), say("done")]),
    toolList: [peek],
    permissions: ask,
    now: () => clock,
  });
  const before = clock;
  const { id } = await engine.start({ ...start, approver });
  expect((await engine.wait(id)).waited).toBeLessThanOrEqual(clock - before);
});

test("an approver that throws at once is nobody", async () => {
  const write = toolOf("write", async () => ({ text: "x" }), { access: "write" });
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", {}]), say("done")]),
    toolList: [write],
    permissions: ask,
  });
  const approver = (() => {
    throw new Error("terminal gone");
  }) as unknown as Approver;
  const { id } = await engine.start({ ...start, approver });
  expect((await engine.wait(id)).status).toBe("waiting");
});

for (const [name, result] of [
  ["nothing", undefined],
  ["no text", {}],
  ["a number", { text: 5 }],
] as const) {
  test(`a tool that answers ${name} is a failed call, not a failed response`, async () => {
    const odd = toolOf("odd", async () => result as never);
    const { engine } = await engineWith({ model: modelOf([callOf(["odd", {}]), say("done")]), toolList: [odd] });
    const { id } = await engine.start(start);
    expect((await engine.wait(id)).status).toBe("completed");
  });
}

test("a storage error in the heartbeat does not end the process", async () => {
  const folder = temporaryFolder();
  const store = await temporaryStore({}, folder);
  const real = store.version.bind(store);
  let calls = 0;
  store.version = () => {
    if (++calls > 2) throw new Error("disk I/O error");
    return real();
  };
  const seen: unknown[] = [];
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => seen.push(error.message));
  const slow = toolOf("slow", () => new Promise((resolve) => setTimeout(() => resolve({ text: "x" }), 300)));
  const { engine } = await engineWith({ store, model: modelOf([callOf(["slow", {}]), say("done")]), toolList: [slow] });
  const { id } = await engine.start(start);
  await engine.wait(id).catch(() => undefined);
  process.removeAllListeners("uncaughtException");
  for (const listener of listeners) process.on("uncaughtException", listener as never);
  expect(seen).toEqual([]);
});

for (const [title, first, second] of [
  ["moved with its folder", "mv secrets pub", "pub/key"],
  ["copied", "cp -r secrets pub", "pub/key"],
  [
    "moved two folders above",
    "mkdir out; mv secrets/.. out/x; mv secrets out/pub; mv secrets/key k; true",
    "out/pub/key",
  ],
  ["linked hard", "mkdir pub; ln secrets/key pub/key", "pub/key"],
  ["archived", "tar cf all.tar secrets && mkdir pub && tar xf all.tar -C pub --strip-components=1", "pub/key"],
] as const) {
  test(`a file that is hidden from reading is not read when it was ${title}`, async () => {
    const workspace = temporaryFolder();
    mkdirSync(join(workspace, "secrets"));
    writeFileSync(join(workspace, "secrets", "key"), "TOP-SECRET-VALUE");
    const tools = createBuiltinTools({ sandbox: () => detectSandbox("auto"), profiles: [], hidden: [] });
    const { engine } = await engineWith({
      model: modelOf([
        callOf(["bash", { command: first }]),
        callOf(["read", { files: [{ file_path: second }] }]),
        say("done"),
      ]),
      toolList: tools,
      permissions: { allow: [], ask: [], deny: ["read(secrets/**)"], mode: "auto" },
      sandbox: { level: async () => (await detectSandbox("auto")).level, network: "auto" },
    });
    const { id } = await engine.start({ ...start, workspace });
    await engine.wait(id);
    expect(JSON.stringify((await engine.get(id)).output)).not.toContain("SECRET-VALUE");
  });
}

test("a guarded file is not made anew by renaming its folder; a name with brackets is hidden too", async () => {
  const workspace = temporaryFolder();
  for (const folder of [".vscode", "a[1]"]) mkdirSync(join(workspace, folder));
  writeFileSync(join(workspace, ".vscode", "settings.json"), "{}");
  writeFileSync(join(workspace, "a[1]", "key{x}"), "TOP-SECRET-VALUE");
  const sandbox = await detectSandbox("auto");
  const [, , , bash] = createBuiltinTools({ sandbox: async () => sandbox, profiles: [], hidden: [] });
  const command = "mv .vscode v; mkdir -p .vscode; echo PWNED > .vscode/settings.json; mv a* b; cat a*/key* b/key*";
  const { engine } = await engineWith({
    model: modelOf([callOf(["bash", { command }]), say("done")]),
    toolList: bash ? [bash] : [],
    permissions: { allow: [], ask: [], deny: ["read(a[1]/key{x})"], mode: "auto" },
  });
  const { id } = await engine.start({ ...start, workspace });
  await engine.wait(id);
  expect(readFileSync(join(workspace, ".vscode", "settings.json"), "utf8")).toBe("{}");
  expect(JSON.stringify((await engine.get(id)).output)).not.toContain("SECRET-VALUE");
});

test("a write deny rule holds against a link made by an earlier call of the same answer", async () => {
  const workspace = temporaryFolder();
  mkdirSync(join(workspace, "src"));
  const tools = createBuiltinTools({ sandbox: () => detectSandbox("auto"), profiles: [], hidden: [] });
  const { engine } = await engineWith({
    model: modelOf([
      callOf(["bash", { command: "ln -s src out" }], ["write", { file_path: "out/x", content: "evil" }]),
      say("done"),
    ]),
    toolList: tools,
    permissions: { allow: [], ask: [], deny: ["write(src/**)"], mode: "auto" },
  });
  const { id } = await engine.start({ ...start, workspace });
  await engine.wait(id);
  expect(existsSync(join(workspace, "src", "x"))).toBe(false);
  expect(JSON.stringify((await engine.get(id)).output)).toContain("leads elsewhere");
});

test("the names of Object.prototype are no profiles", async () => {
  const profiles = createProfiles({ configured: {}, defaultProfile: "general", advice: true });
  for (const name of ["__proto__", "constructor", "toString"])
    await expect.soft(profiles.get(name), name).rejects.toMatchObject({ code: "profile_not_found" });
});

test("an error in a configuration file shows no key", async () => {
  const root = temporaryFolder();
  const environment = { HOME: root, ROTUNDA_HOME: join(root, "s"), MY_SECRET: "sk-very-secret-1" };
  const config = join(root, "c.yaml");
  for (const text of [
    "models: [{id: m, baseUrl: 'https://x/v1', apiKey: \"sk-very-secret-1 }]\n",
    "models: [{id: m, baseUrl: '${MY_SECRET}'}]\n",
  ]) {
    writeFileSync(config, text);
    const error = await loadConfig({ workspace: root, environment, flags: { config } }).catch(
      (thrown: Error) => thrown,
    );
    expect.soft(error).toBeInstanceOf(Error);
    expect.soft((error as Error).message).not.toContain("sk-very-secret-1");
  }
});

test("invisible characters are shown", () => {
  for (const character of ["\ufe0f", "\u{e0100}", "\u180e", "\u3164", "\u115f", "\u034f", "\u00a0", "\u2800"])
    expect.soft(visible(`a${character}b`), `U+${character.codePointAt(0)?.toString(16)}`).not.toContain(character);
  expect.soft(visible("ok ⚠️ ❤️ für\r\n日本　語\t")).toBe("ok ⚠️ ❤️ für\n日本　語\t");
  expect.soft(visible("safe\rrm -rf /")).not.toBe("saferm -rf /");
});

test("nothing here is left over", () => expect(existsSync("/tmp/pwned")).toBe(false));
