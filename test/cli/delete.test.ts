/** What was said is looked for, and taken back. */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import type { FoundItem } from "../../src/types/browsing.ts";
import { later } from "../support.ts";
import { BIN, type Home, home } from "./run.ts";

const SLOW = { timeout: 60_000 };

async function placeWith(...answers: Parameters<typeof startUpstream>[0] & unknown[]): Promise<Home> {
  const upstream = await startUpstream(answers);
  later(() => upstream.close());
  const place = home();
  const model = { id: "main", baseUrl: upstream.url, model: "test", retries: 0 };
  const file = join(place.workspace, "..", "rotunda.yaml");
  writeFileSync(file, JSON.stringify({ models: [model] }));
  place.environment.ROTUNDA_CONFIG = file;
  return place;
}

async function ask(place: Home, ...words: string[]): Promise<string> {
  const { out } = await place.run(["chat", "--output-format", "json", ...words]);
  return (JSON.parse(out) as { response_id: string }).response_id;
}

const short = (id: string) => id.slice(-8);

/** Whether a text stands anywhere in the files of the database. */
function isStored(place: Home, text: string): boolean {
  const file = join(place.environment.ROTUNDA_HOME ?? "", "rotunda.db");
  return ["", "-wal"].some((end) => {
    try {
      return readFileSync(`${file}${end}`).includes(text);
    } catch {
      return false;
    }
  });
}

test(
  "a response is erased by a part of its id, once somebody agrees; from then on it is told to be deleted",
  SLOW,
  async () => {
    const place = await placeWith({ text: "the answer kingfisher" });
    const id = await ask(place, "about the wagtail");
    const refused = await place.run(["delete", short(id)]);
    expect(refused.code).toBe(2);
    expect(refused.err).toMatch(/^response \w{8} {2}general {2}main {2}just now {2}"about the wagtail"\n/);
    expect(refused.err).toContain(`nobody is here to agree\n  rotunda delete ${short(id)} --yes\n`);
    expect(isStored(place, "wagtail")).toBe(true);
    const done = await place.run(["delete", short(id), "--yes"]);
    expect(done).toMatchObject({ code: 0, out: "", err: expect.stringMatching(/\nDeleted: 1 response\.\n$/) });
    expect([isStored(place, "wagtail"), isStored(place, "kingfisher")]).toEqual([false, false]);
    const day = new Date().toISOString().slice(0, 10);
    for (const words of [["show"], ["log"], ["log", "--follow"], ["resume"], ["cancel"], ["delete", "--yes"]]) {
      const again = await place.run([...words, short(id)]);
      expect([words, again.code, again.err]).toEqual([words, 2, `rotunda: response ${id} was deleted on ${day}\n`]);
    }
    expect((await place.run(["chat", "--from", short(id), "on"])).err).toContain(`${id} was deleted on ${day}`);
    expect((await place.run(["audit"])).out).toMatch(new RegExp(`delete {2}cli {2}cli {2}${id}`));
  },
);

test("what a branch needs stays until it goes; a conversation goes with all its responses", SLOW, async () => {
  const place = await placeWith({ text: "hello" });
  const root = await ask(place, "--conversation", "notes", "about the wagtail");
  const next = await ask(place, "--conversation", "notes", "about the dipper");
  const branch = await ask(place, "--from", root, "on from there");
  const gone = await place.run(["delete", "notes", "--yes", "--json"]);
  expect(gone.err).toContain('conversation notes  2 responses  "about the wagtail"\n');
  expect(gone.err).toContain("goes on from 1 of them: what that needs stays until it is deleted too");
  const told = JSON.parse(gone.out) as { responses: string[]; conversations: string[] };
  expect(told.responses.sort()).toEqual([root, next].sort());
  expect(told.conversations).toHaveLength(1);
  expect([isStored(place, "wagtail"), isStored(place, "dipper")]).toEqual([true, false]);
  expect((await place.run(["log", "notes"])).code).toBe(2);
  expect((await place.run(["chat", "--from", short(branch), "on"])).code).toBe(0);
  const rest = JSON.parse((await place.run(["log", "--json"])).out) as { id: string }[];
  await place.run(["delete", "--yes", ...rest.map(({ id }) => short(id))]);
  expect(isStored(place, "wagtail")).toBe(false);
});

test("one that has not ended is refused, with the line that ends it, and nothing else goes either", SLOW, async () => {
  const place = await placeWith({ text: "hello" }, { text: ["half "], break: "hang" });
  const ended = await ask(place, "one");
  const running = place.start(["chat", "--conversation", "work", "two"]);
  await expect.poll(running.out, { timeout: 20_000 }).toContain("half");
  const { code, err } = await place.run(["delete", short(ended), "work", "--yes"]);
  expect(code).not.toBe(0);
  const [, id] = /response resp_\w+?(\w{8}) has not ended \(it is in_progress\)/.exec(err) ?? [];
  expect(err).toContain(`End it first: rotunda cancel ${id}`);
  expect((await place.run(["show", short(ended)])).code).toBe(0);
  expect((await place.run(["cancel", id ?? ""])).code).toBe(0);
  await running.result;
  expect((await place.run(["delete", "work", "--yes"])).code).toBe(0);
});

test("at a terminal it asks, and anything but a yes is a no", SLOW, async () => {
  const place = await placeWith({ text: "hello" });
  const id = await ask(place, "one");
  for (const [answer, said] of [
    ["\r", "Nothing was deleted."],
    ["y\r", "Deleted: 1 response."],
  ] as const) {
    const child = spawn("script", ["-qefc", `'${process.execPath}' '${BIN}' delete ${short(id)}`, "/dev/null"], {
      cwd: place.workspace,
      env: { ...place.environment, TERM: "xterm" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    later(() => void child.kill("SIGKILL"));
    let screen = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      screen += text;
    });
    await expect.poll(() => screen, { timeout: 20_000 }).toContain("Delete? [y/N] ");
    child.stdin.write(answer);
    await expect.poll(() => screen, { timeout: 20_000 }).toContain(said);
  }
});

test("search finds what was said, the newest first, with who said it and where", SLOW, async () => {
  const place = await placeWith(
    { calls: [{ name: "bash", arguments: { command: "echo grebe" } }] },
    { text: "a Heron and a wagtail" },
    { text: "nothing of that" },
  );
  const first = await ask(place, "--mode", "auto", "one");
  const second = await ask(place, "is there a heron?");
  const found = (await place.run(["search", "HERON"])).out.split("\n");
  const at = "\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d";
  expect(found[0]).toMatch(new RegExp(`^${short(second)} {2}${at} {2}user {7}is there a heron\\?$`));
  expect(found[1]).toMatch(new RegExp(`^${short(first)} {2}${at} {2}assistant {2}a Heron and a wagtail$`));
  expect(found.slice(2)).toEqual([""]);
  const both = JSON.parse((await place.run(["search", "heron wagtail", "--json"])).out) as FoundItem[];
  expect(both).toMatchObject([{ responseId: first, role: "assistant", excerpt: "a Heron and a wagtail" }]);
  const one = await place.run(["search", "heron", "--limit", "1"]);
  expect([one.out.split("\n").length, one.err]).toEqual([2, "There may be more: --limit shows them.\n"]);
  const none = await place.run(["search", "grebe"]);
  expect(none).toMatchObject({ code: 0, out: "", err: expect.stringContaining("--all") });
  expect((await place.run(["search", "--all", "grebe"])).out).toMatch(/ {2}tool {7}/);
  expect((await place.run(["search", " "])).code).toBe(2);
});
