/** What a person is told of a call that waits: the file as it is, and where the question comes from; and what tokens are told of the server. */
import { linkSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { serve } from "./served.ts";

interface Change {
  path: string;
  exists: boolean | null;
  before: string | null;
}

interface Pending {
  id: string;
  responseId: string;
  prompt: string | null;
  workspace: string;
  door: string;
}

/** Writes, edits or runs what the question names. */
const script: UpstreamScript = ({ body }) => {
  const messages = body.messages as { role: string; content: unknown }[];
  if (messages.at(-1)?.role === "tool") return { text: "Done." };
  const [, tool = "write", path = ""] =
    /(write|edit|bash) ([^"\\]+)/.exec(JSON.stringify(messages.at(-1)?.content)) ?? [];
  if (tool === "bash") return { calls: [{ name: "bash", arguments: { command: path } }] };
  const edits = [{ old_string: "a", new_string: "b" }];
  return {
    calls: [{ name: tool, arguments: { file_path: path, ...(tool === "write" ? { content: "new" } : { edits }) } }],
  };
};

test("W2 what a call would change is told to its owner, as far as the agent may read it, and to nobody else", async () => {
  const served = await serve(script, {
    config: { permissions: { deny: ["read(private/*)"], ask: ["read(asked.txt)", "bash"] } },
  });
  const put = (name: string, content: string | Buffer) => writeFileSync(join(served.workspace, name), content);
  mkdirSync(join(served.workspace, "private"));
  put("text.txt", "as it is\n");
  put("empty.txt", "");
  put("private/key.txt", "hidden words");
  put("asked.txt", "hidden words");
  put(".env", "SECRET=hidden words");
  put("large.txt", "x".repeat(200_001));
  put("binary.bin", Buffer.from([1, 0, 2]));
  put("latin.txt", Buffer.from([0xe9, 0x74, 0xe9]));
  put("key.txt", "the key is sk-test-0123456789\n");
  writeFileSync(join(served.folder, "outside.txt"), "hidden words");
  symlinkSync(join(served.folder, "outside.txt"), join(served.workspace, "link.txt"));
  symlinkSync(served.folder, join(served.workspace, "folder"));
  linkSync(join(served.folder, "outside.txt"), join(served.workspace, "hard.txt"));
  symlinkSync("private/key.txt", join(served.workspace, "within.txt"));

  const alice = await served.newToken({ scopes: ["responses:write", "responses:read", "approve"] });
  const mallory = await served.newToken({ scopes: ["responses:write", "responses:read", "approve"] });
  const reader = await served.newToken({ scopes: ["responses:read"] });
  const pendingOf = async (token?: string) => {
    const answer = await served.fetch("/v1/tool-approvals", token === undefined ? {} : { token });
    return ((await answer.json()) as { approvals: Pending[] }).approvals;
  };
  const ask = async (input: string) => {
    const { id } = await served.respond({ model: "test-model", input, background: true }, alice);
    await expect.poll(async () => (await pendingOf(alice)).some((one) => one.responseId === id)).toBe(true);
    return (await pendingOf(alice)).find((one) => one.responseId === id) as Pending;
  };
  const change = async (id: string, token: string = alice) =>
    served.fetch(`/v1/tool-approvals/${id}/change`, { token });
  const told = async (path: string, tool = "write") =>
    (await (await change((await ask(`${tool} ${path}`)).id)).json()) as Change;

  expect(await told("text.txt")).toEqual({ path: "text.txt", exists: true, before: "as it is\n" });
  expect(await told("text.txt", "edit")).toEqual({ path: "text.txt", exists: true, before: "as it is\n" });
  expect(await told("empty.txt")).toMatchObject({ exists: true, before: "" });
  expect(await told("none/at/all.txt")).toMatchObject({ exists: false, before: null });
  for (const path of ["large.txt", "binary.bin", "latin.txt"]) {
    expect(await told(path), path).toEqual({ path, exists: true, before: null });
  }
  for (const path of ["private/key.txt", "within.txt", "asked.txt", ".env", "private", "hard.txt"]) {
    expect(await told(path), path).toMatchObject({ path, exists: null, before: null });
  }
  // Nobody is asked about what lies outside; what a link leads out to since it was asked is not shown.
  for (const path of ["link.txt", "folder/outside.txt", "../outside.txt", join(served.folder, "outside.txt")]) {
    const { id, status, output } = await served.respond({ model: "test-model", input: `write ${path}` }, alice);
    expect([status, JSON.stringify(output).includes("outside the workspace")], path).toEqual(["completed", true]);
    expect((await pendingOf(alice)).some(({ responseId }) => responseId === id)).toBe(false);
  }
  put("swapped.txt", "as it is\n");
  const swapped = await ask("write swapped.txt");
  rmSync(join(served.workspace, "swapped.txt"));
  symlinkSync(join(served.folder, "outside.txt"), join(served.workspace, "swapped.txt"));
  expect(await (await change(swapped.id)).json()).toMatchObject({ exists: null, before: null });
  expect((await told("key.txt")).before).not.toContain("sk-test-0123456789");

  const one = await ask("write text.txt");
  expect(one).toMatchObject({ prompt: "write text.txt", workspace: served.workspace, door: "http" });
  expect((await change(one.id, served.token)).status).toBe(200);
  // Somebody else's is like one that does not exist; and who may not answer, may not look.
  const unknown = "mcpr_00000000000000000000000000";
  const [theirs, none] = await Promise.all([change(one.id, mallory), change(unknown, mallory)]);
  expect([theirs.status, none.status]).toEqual([404, 404]);
  expect((await theirs.text()).replaceAll(one.id, unknown)).toBe(await none.text());
  expect((await change(one.id, reader)).status).toBe(403);
  // Only of write and edit, and only while it waits.
  expect((await change((await ask("bash ls")).id)).status).toBe(404);
  const answer = { approvalId: one.id, approved: false };
  expect((await served.fetch("/v1/tool-approval", { token: alice, json: answer })).status).toBe(200);
  expect((await change(one.id)).status).toBe(404);
}, 60_000);

test("models tell what is default and what it costs; hosts and directories only to whoever sees the settings", async () => {
  const served = await serve([], {
    config: { profiles: { careful: { instructions: "Be careful.", model: "other-model" } } },
  });
  type Model = { id: string; default?: true; endpoint?: string; answers_with?: string };
  const read = async (token?: string) => {
    const given = token === undefined ? {} : { token };
    const models = (await (await served.fetch("/v1/models", given)).json()) as { data: Model[] };
    const session = (await (await served.fetch("/rotunda/session", given)).json()) as { server?: object };
    return { models: models.data, server: session.server };
  };
  const all = await read();
  const host = new URL(served.upstream.url).host;
  const model = (id: string) => all.models.find((one) => one.id === id);
  expect(model("test-model")).toMatchObject({ default: true, endpoint: host });
  expect(model("other-model")).not.toHaveProperty("default");
  expect(model("profile/general")).toMatchObject({ default: true, answers_with: "test-model" });
  expect(model("profile/careful")).toMatchObject({ answers_with: "other-model" });
  expect(all.server).toEqual({ workspace: served.workspace, database: expect.stringMatching(/^(?:SQLite|Postgres)$/) });
  const some = await read(await served.newToken({ scopes: ["responses:read", "chat"] }));
  expect(some.models.filter(({ endpoint }) => endpoint !== undefined)).toEqual([]);
  expect(some.server).toBeUndefined();
});

test("the tree tells what was summed up, titles and excerpts what was asked, a response how long its calls took", async () => {
  const served = await serve(script, { config: { permissions: { allow: ["write"] } } });
  const output = "I ran this by hand:\n$ npm test\n```\n1 failed\n```";
  const content = [
    { type: "input_text", text: "File att.txt:\n\n```\nalpha\n```" },
    { type: "input_text", text: `${output}\n\n[image #1: a.png] write out.txt` },
  ];
  const input = [{ type: "message", role: "user", content }];
  const { id } = await served.respond({ model: "test-model", input, conversation: await conversation() });
  async function conversation() {
    return ((await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string }).id;
  }
  const made = await served.app.engine.start({
    input: `${output}\n\nwrite why.txt`,
    workspace: served.workspace,
    door: "tui",
  });
  await served.app.engine.wait(made.id);
  const titled = made.conversationId === null ? undefined : await served.app.store.conversation(made.conversationId);
  expect(titled?.title).toBe("write why.txt");
  const tree = (await (await served.fetch(`/v1/tree?response=${made.id}`)).json()) as { nodes: object[] };
  expect(tree.nodes).toMatchObject([{ prompt: "write why.txt", kind: "answer", workspace: served.workspace }]);

  interface Timed {
    output: { id: string; type: string }[];
    rotunda_durations?: Record<string, number>;
  }
  const plain = (await (await served.fetch(`/v1/responses/${id}`)).json()) as Timed;
  expect(plain).not.toHaveProperty("rotunda_durations");
  const timed = (await (await served.fetch(`/v1/responses/${id}?durations=true`)).json()) as Timed;
  const call = plain.output.find(({ type }) => type === "mcp_call");
  expect(Object.keys(timed.rotunda_durations ?? {})).toEqual([call?.id]);
  expect(timed.rotunda_durations?.[call?.id ?? ""]).toBeGreaterThanOrEqual(0);
});
