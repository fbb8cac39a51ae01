/** Copies between databases: the same hashes, logs and outputs on the other side; what does not fit is refused. */
import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { CopySource, type Selection, selectionOf } from "../../src/doors/cli/copy-source.ts";
import { CopyTarget } from "../../src/doors/cli/copy-target.ts";
import { createDatabaseDoctor } from "../../src/store/doctor.ts";
import { hashOf } from "../../src/store/rows.ts";
import type { ResponseCopy } from "../../src/types/copy.ts";
import type { Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { databases } from "../store/databases.ts";
import { auditOf, begin, conversationOf, end, ended } from "../store/support.ts";
import { say } from "../support.ts";
import { engineOn, grow, start, view } from "./trees.ts";

async function copy(from: Store, to: Store, selection?: Selection) {
  const source = new CopySource(await from.copying(), selection);
  const target = new CopyTarget(await to.copying(), { verify: true });
  for await (const page of source.pages()) await target.take(page);
  await target.settle();
  return { source, target };
}

const pairs = databases.flatMap((from) => databases.map((to) => ({ from, to, name: `${from.name} to ${to.name}` })));

describe.each(pairs)("$name", ({ from, to }) => {
  test("G18 a whole database: the same hashes, logs, outputs; it goes on, branches, and what was deleted stays so", async () => {
    const [one, other] = [await from.fresh(), await to.fresh()];
    const [source, target] = [await one.open(), await other.open()];
    const tree = await grow(source);
    const living = [tree.root, tree.withCall, tree.head, tree.branch, tree.subAgent];
    const before = await view(source, living);
    const copied = await copy(source, target);
    expect(copied.target.counts.responses).toEqual({ pasted: 7, known: 0, moved: 0 });
    expect(copied.target.verified).toBe(7);
    expect(await view(target, living)).toEqual(before);
    expect(await view(source, living)).toEqual(before);
    // Deleted stays deleted, and is still needed; erased is a hash.
    expect(await target.node(tree.gone)).toBeUndefined();
    expect((await target.path(tree.head)).map(({ node }) => node.id)).toContain(tree.gone);
    const [erased] = await (await target.copying()).responses({ ids: [tree.erased] });
    expect(erased?.copy).toMatchObject({
      body: "",
      entries: [],
      events: [],
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    // What has not ended stays behind with what stands on it, and is named.
    expect(copied.source.left.map(({ what }) => what)).toEqual([
      `response ${tree.open}`,
      `response ${tree.openSubAgent}`,
      "conversation waiting",
    ]);
    expect(await target.conversation(tree.openConversation)).toBeUndefined();
    const [there, here] = [await target.conversation("work"), await source.conversation("work")];
    // SQLite holds no half of a character.
    expect({ ...there, title: there?.title.toWellFormed() }).toEqual({ ...here, title: here?.title.toWellFormed() });
    const engine = await engineOn(target, [say("on the other side")]);
    for (const next of [{ conversation: tree.conversation }, { previousResponseId: tree.root }]) {
      const { id } = await engine.start({ ...start, ...next });
      expect(await engine.wait(id)).toMatchObject({ status: "completed" });
      expect((await target.get(id))?.node.hash).toMatch(/^[0-9a-f]{64}$/);
    }
    expect((await target.conversation("work"))?.head).not.toBe(tree.head);
    if ("file" in other.place) {
      const examined = await createDatabaseDoctor(other.place.file).examine();
      expect(examined).toMatchObject({ responses: 9, damaged: [], rows: [], pages: [] });
    }
  });

  test("a second time adds nothing, and what has ended meanwhile comes along", async () => {
    const [source, target] = [await (await from.fresh()).open(), await (await to.fresh()).open()];
    const tree = await grow(source);
    await copy(source, target);
    const again = await copy(source, target);
    expect(again.target.counts.responses).toEqual({ pasted: 0, known: 7, moved: 0 });
    expect(again.target.counts.conversations).toEqual({ pasted: 0, known: 2, moved: 0 });
    await end(source, tree.open);
    const engine = await engineOn(source, [say("more")]);
    const { id } = await engine.start({ ...start, conversation: tree.conversation });
    await engine.wait(id);
    const third = await copy(source, target);
    expect(third.target.counts.responses).toEqual({ pasted: 3, known: 7, moved: 0 });
    expect(third.target.counts.conversations).toEqual({ pasted: 1, known: 1, moved: 1 });
    expect((await target.conversation("work"))?.head).toBe(id);
    expect(third.source.leftCount).toBe(0);
  });

  test("one conversation: its path and its sub-agents; with the tree, its branches", async () => {
    const [source, target] = [await (await from.fresh()).open(), await (await to.fresh()).open()];
    const tree = await grow(source);
    const path = await copy(source, target, await selectionOf(source, "work", false));
    expect(path.target.counts.responses.pasted).toBe(5);
    expect(await target.node(tree.branch)).toBeUndefined();
    expect(await target.node(tree.subAgent)).toBeDefined();
    const whole = await copy(source, target, await selectionOf(source, tree.head.slice(-8), true));
    expect(whole.target.counts.responses).toEqual({ pasted: 2, known: 5, moved: 0 });
    expect(whole.target.counts.conversations).toEqual({ pasted: 1, known: 1, moved: 0 });
    expect(await target.node(tree.branch)).toBeDefined();
  });

  test("the small tables come along: tokens, rules, budgets, use, schedules, keys, the audit log with its chain", async () => {
    const [source, target] = [await (await from.fresh()).open(), await (await to.fresh()).open()];
    const now = Date.now();
    const key = { key: "once", digest: "d", expiresAt: now + 60_000 };
    const id = await ended(source, { owner: "tokenaaaaaaa", idempotency: key });
    const conversation = conversationOf({ name: "plan", head: id, owner: "tokenaaaaaaa" });
    await source.saveConversation(conversation);
    const token = {
      id: "tokenaaaaaaa",
      name: "phone",
      secretHash: hash("sha256", "secret"),
      scopes: ["chat" as const],
    };
    const form = {
      profiles: null,
      limits: {},
      events: "openai" as const,
      createdAt: now,
      expiresAt: null,
      revokedAt: null,
    };
    await source.saveToken({ ...token, ...form });
    await source.addRule({ id: newId("rule"), scope: "always", holder: "/work", rule: "bash(ls *)", createdAt: now });
    await source.saveBudget("all", { cost: 5 }, "month", now);
    const request = { input: "go", workspace: "/work" };
    const times = { nextAt: now + 1_000, lastResponseId: null, lastAt: null, error: null, createdAt: now };
    const schedule = {
      id: newId("sched"),
      owner: "local",
      name: "daily",
      cron: "@daily",
      request,
      enabled: true,
      ...times,
    };
    await source.saveSchedule(schedule);
    for (const what of ["one", "two", "three"]) await source.audit(auditOf(what));
    // Names that are taken there.
    await target.saveToken({ ...token, ...form, id: "tokenbbbbbbb" });
    await target.saveSchedule({ ...schedule, id: newId("sched") });
    await target.saveConversation(conversationOf({ name: "plan", owner: "tokenaaaaaaa" }));

    const { target: first } = await copy(source, target);
    expect(first.renamed.map(({ to: name }) => name)).toEqual(["plan-2", "phone-2", "daily-2"]);
    expect(await target.token("tokenaaaaaaa")).toEqual({ ...token, ...form, name: "phone-2" });
    expect(await target.rules()).toEqual(await source.rules());
    expect(await target.budgets(now)).toEqual(await source.budgets(now));
    expect(await target.schedules()).toContainEqual({ ...schedule, name: "daily-2" });
    expect(await target.idempotency("tokenaaaaaaa", "once")).toMatchObject({ responseId: id });
    expect(await target.audits(0, 10)).toEqual(await source.audits(0, 10));
    expect(await target.auditEnd()).toEqual(await source.auditEnd());
    expect((await target.conversation(conversation.id))?.name).toBe("plan-2");

    // What comes later goes on with the chain; a log that has records of its own stays as it is.
    await source.audit(auditOf("four"));
    const { target: second } = await copy(source, target);
    expect(second.counts.audit).toEqual({ pasted: 1, known: 3, moved: 0 });
    expect([second.counts.tokens, second.counts.rules, second.counts.schedules].map((one) => one.pasted)).toEqual([
      0, 0, 0,
    ]);
    await target.audit(auditOf("own"));
    await source.audit(auditOf("five"));
    const { target: third } = await copy(source, target);
    expect(third.left).toEqual([{ what: "the audit log", why: "the log here has records of its own" }]);
    expect(await target.audits(0, 10)).toHaveLength(5);
  });
});

describe.each(databases)("into $name", ({ fresh }) => {
  async function twoOfThem(): Promise<{ source: Store; copies: ResponseCopy[] }> {
    const source = await (await fresh()).open();
    const first = await ended(source);
    const second = await ended(source, { previousResponseId: first });
    const found = await (await source.copying()).responses({ ids: [second, first] });
    return { source, copies: found.map(({ copy: one }) => one) };
  }

  const spoilt: [string, (copy: ResponseCopy) => object, RegExp][] = [
    ["an item", ({ entries: [first] }) => Object.assign(first ?? {}, { turn: 7 }), /does not match its hash/],
    ["the body", ({ body }) => ({ body: body.replace("general", "genera1") }), /does not match its hash/],
    ["the log", ({ events }) => ({ events: events.slice(1) }), /its log/],
    [
      "what the log says",
      ({ events }) => ({ events: events.map((row) => ({ ...row, body: row.body.replaceAll("done", "dome") })) }),
      /its log/,
    ],
    ["the parent's hash", () => ({ parent_hash: "0".repeat(64) }), /hash/],
    [
      // Whoever computes its own hash anew cannot make it fit the one that it goes on from.
      "all that is above it",
      (one) => {
        const parent_hash = "0".repeat(64);
        return { parent_hash, hash: hashOf({ ...one, number: 0 }, one.entries, parent_hash) };
      },
      /does not fit the hash of/,
    ],
    ["the id", () => ({ id: "resp_x" }), /resp_x/],
    ["a place", ({ entries: [first] }) => Object.assign(first ?? {}, { position: 2 ** 23 }), /order of its items/],
    ["the status", () => ({ status: "in_progress" }), /status/],
    ["the end", () => ({ ended_at: null }), /time/],
  ];

  test.each(spoilt)(
    "G18 %s that was changed is refused by its id; what came before it stays",
    async (_name, spoil, why) => {
      const { copies } = await twoOfThem();
      const target = await (await fresh()).open();
      const copying = await target.copying();
      const [first, second] = copies;
      if (!first || !second) throw new Error("there are two");
      Object.assign(second, spoil(second));
      await expect(copying.paste([first, second])).rejects.toMatchObject({
        code: "storage_damaged",
        message: expect.stringMatching(why),
      });
      expect((await copying.responses({ after: 0, upTo: 100, limit: 10 })).map((one) => one.copy.id)).toEqual([
        first.id,
      ]);
      await target.get(first.id);
    },
  );

  test("without its parent, or under an id that another response has, nothing is written", async () => {
    const { source, copies } = await twoOfThem();
    const target = await (await fresh()).open();
    const copying = await target.copying();
    await expect(copying.paste(copies.slice(1))).rejects.toThrow(/missing/);
    expect(await copying.last()).toBe(0);
    const id = copies[0]?.id ?? "";
    await begin(target, { id });
    await end(target, id, "something else");
    await expect(copying.paste(copies)).rejects.toThrow(/another response with this id/);
    expect((await copying.responses({ ids: [id] }))[0]?.copy.hash).not.toBe((await source.node(id))?.hash);
  });

  test("what was deleted here does not come back, and what goes on from it stays out", async () => {
    const { source, copies } = await twoOfThem();
    const target = await (await fresh()).open();
    await (await target.copying()).paste(copies.slice(0, 1));
    await target.delete(copies[0]?.id ?? "");
    const third = await ended(source, { previousResponseId: copies[1]?.id ?? "" });
    const { target: outcome } = await copy(source, target);
    expect(outcome.counts.responses).toEqual({ pasted: 0, known: 1, moved: 0 });
    expect(outcome.left.map(({ what }) => what)).toEqual([`response ${copies[1]?.id}`, `response ${third}`]);
    expect(await target.list({})).toEqual([]);
  });

  test("what came as deleted, and nothing that came needs, is erased", async () => {
    const source = await (await fresh()).open();
    const first = await ended(source, { input: "a secret word" });
    await begin(source, { previousResponseId: first });
    await source.delete(first);
    const target = await (await fresh()).open();
    await copy(source, target);
    const [there] = await (await target.copying()).responses({ ids: [first] });
    expect(there?.copy).toMatchObject({ body: "", entries: [] });
    const [still] = await (await source.copying()).responses({ ids: [first] });
    expect(still?.copy.entries).toHaveLength(2);
  });

  test("a damaged response stays behind with what stands on it, the rest comes along", async () => {
    const place = await fresh();
    const source = await place.open();
    const first = await ended(source);
    const second = await ended(source, { previousResponseId: first });
    const other = await ended(source);
    const number = "file" in place.place ? "key >> 24" : "number";
    await place.query(
      `UPDATE entries SET item = replace(item, 'done', 'dome') WHERE ${number} = (SELECT number FROM responses WHERE id = ?)`,
      first,
    );
    const target = await (await fresh()).open();
    const copied = await copy(source, target);
    expect(copied.source).toMatchObject({ damaged: 1, leftCount: 2 });
    expect((await target.list({})).map(({ id }) => id)).toEqual([other]);
    expect(await target.node(second)).toBeUndefined();
  });

  test("a conversation that has gone on here keeps its head", async () => {
    const source = await (await fresh()).open();
    const tree = await grow(source);
    const target = await (await fresh()).open();
    await copy(source, target);
    for (const store of [source, target]) {
      const engine = await engineOn(store, [say("on its own way")]);
      await engine.wait((await engine.start({ ...start, conversation: tree.conversation })).id);
    }
    const here = await target.conversation("work");
    const { target: outcome } = await copy(source, target);
    expect(outcome.left).toEqual([{ what: "conversations work", why: expect.stringContaining("has gone on here") }]);
    expect(await target.conversation("work")).toEqual(here);
    expect(await target.children(tree.head)).toHaveLength(2);
  });
});
