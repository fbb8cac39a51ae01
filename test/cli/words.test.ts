/** Words of the command line that are in another order, of another program, contradictory, or none. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Home, home } from "./run.ts";

describe("a sentence without a command", () => {
  test("is the prompt of chat, with flags before and behind it", async () => {
    const { run } = home();
    const asked = await run(["What is this?"]);
    expect(asked).toMatchObject({ code: 0, out: expect.stringContaining("DEMO") });
    const flagged = await run(["--no-color", "What is this?", "--output-format", "json"]);
    expect(JSON.parse(flagged.out)).toMatchObject({ status: "completed", model: "demo" });
  });

  test.each([
    [["chta"], 'unknown command "chta"; did you mean "chat"?', "rotunda --help"],
    [["Hello?"], 'unknown command "Hello?"', 'rotunda chat "…"'],
    [["ask", "What?"], 'unknown command "ask"; did you mean: rotunda chat "…"', "rotunda --help"],
    [["login"], 'unknown command "login"; did you mean "hub login"?', "rotunda --help"],
    [["-p", "What?"], "unknown option '-p'", 'Did you mean: rotunda chat "…"'],
    [["-c"], "unknown option '-c'", 'Did you mean: rotunda chat --continue "…"'],
    [["--continue", "go on"], "unknown option '--continue'", 'Did you mean: rotunda chat --continue "…"'],
    [["-m", "gpt", "What?"], "unknown option '-m'", 'Did you mean: rotunda chat --model NAME "…"'],
    [["chat", "-c"], "unknown option '-c'", 'Did you mean: rotunda chat --continue "…"'],
  ])("%j is told what it may have meant", async (words, error, hint) => {
    const { code, out, err } = await home().run(words);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(`error: ${error}`);
    expect(err).toContain(hint);
  });
});

test.each([
  [["hub", "tset"], 'unknown command "hub tset"; did you mean "hub test"?'],
  [["token", "foo"], 'unknown command "token foo"'],
  [["budget", "foo"], 'unknown command "budget foo"'],
  [["schedule", "lst"], 'unknown command "schedule lst"; did you mean "schedule list"?'],
  [["audit", "foo"], 'unknown command "audit foo"'],
  [["permissions", "tset"], 'unknown command "permissions tset"; did you mean "permissions test"?'],
])("%j: the command and its own help are named", async (words, error) => {
  const { code, out, err } = await home().run(words);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toBe(`error: ${error}\n(rotunda ${words[0]} --help shows what there is)\n`);
});

test("a wrong flag names the help of the command that it was given to", async () => {
  const { err } = await home().run(["hub", "test", "--jsn"]);
  expect(err).toContain("Did you mean --json?");
  expect(err).toContain("(rotunda hub test --help shows what it takes)");
});

describe("flags of every command", () => {
  function configured(): Home {
    const place = home();
    const server = { command: "true", enabled: false };
    writeFileSync(join(place.workspace, "..", "own.json"), JSON.stringify({ mcpServers: { mine: server } }));
    return place;
  }

  test.each([
    [["--config", "../own.json", "hub", "list", "--json"]],
    [["--config=../own.json", "--verbose", "hub", "--json"]],
    [["hub", "--config", "../own.json", "list", "--json"]],
    [["hub", "list", "--json", "--config", "../own.json"]],
  ])("stand in front of it as well as behind it: %j", async (words) => {
    const { code, out } = await configured().run(words);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject([{ name: "mine" }]);
  });

  test("alone they are flags of chat, and in front of --version they are nothing", async () => {
    const { run } = home();
    expect((await run(["--verbose"], { input: "Hi" })).out).toContain("DEMO");
    expect((await run(["--verbose", "--version"])).out).toMatch(/^\d+\.\d+\.\d+/);
  });

  test("a server that was started with them keeps them as its flags", async () => {
    const place = configured();
    const { code, err } = await place.run(["--config", "../own.json", "serve", "--check"]);
    expect([code, err]).toEqual([0, ""]);
    const refused = await place.run(["--config", "../nothing.json", "serve", "--check"]);
    expect([refused.code, refused.out]).toEqual([2, ""]);
  });
});

test.each([
  [["chat", "--from", "k3v9", "--continue", "x"], "'--from <id>' cannot be used with option '--continue'"],
  [["chat", "--from", "k3v9", "--conversation", "a", "x"], "'--from <id>' cannot be used with option '--conversation"],
  [
    ["chat", "--continue", "--conversation", "a", "x"],
    "'--continue' cannot be used with option '--conversation <name>'",
  ],
  [["trust", "--list", "--revoke"], "'--revoke' cannot be used with option '--list'"],
  [["cancel", "k3v9", "--all"], "which one: that response, or --all?"],
  [["chat", "--debug=foo", "x"], "It must be some of all, llm, tools, mcp, engine"],
  [["chat", "--timeout", "0", "x"], "It must be a number of seconds above 0."],
  [["log", "--limit", "abc"], "It must be a whole number from 1 up."],
  [["log", "--limit", "0"], "It must be a whole number from 1 up."],
  [["log", "--limit", "2.5"], "It must be a whole number from 1 up."],
])("%j is refused, and why is said", async (words, error) => {
  const { code, out, err } = await home().run(words);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain(error);
});

test("--debug with topics is taken", async () => {
  const { code } = await home().run(["chat", "--debug=llm,mcp", "Hi"]);
  expect(code).toBe(0);
});

test("nothing trusted is said so", async () => {
  expect(await home().run(["trust", "--list"])).toMatchObject({ code: 0, out: "", err: "No file is trusted.\n" });
});

test("show takes the name of a conversation: its last answer", async () => {
  const { run } = home();
  await run(["chat", "--conversation", "notes", "one"]);
  await run(["chat", "--conversation", "notes", "two"]);
  const byName = JSON.parse((await run(["show", "notes", "--json"])).out) as { id: string; input: unknown };
  expect(JSON.stringify(byName.input)).toContain("two");
  const { id: conversation } = {
    id: (JSON.parse((await run(["show", byName.id, "--json"])).out) as { conversationId: string }).conversationId,
  };
  expect(JSON.parse((await run(["show", conversation, "--json"])).out)).toEqual(byName);
  expect((await run(["show", "other-notes"])).code).toBe(2);
});

test("move onto itself is refused; a copy in a file is not advised to come straight back", async () => {
  const { run, workspace, environment } = home();
  await run(["chat", "one"]);
  mkdirSync(join(workspace, "away"));
  const own = join(environment.ROTUNDA_HOME ?? "", "rotunda.db");
  for (const words of [["sqlite"], [own], ["copy.db", "--from", "./copy.db"]]) {
    const { code, out, err } = await run(["move", "--to", ...words]);
    expect([words, code, out]).toEqual([words, 2, ""]);
    expect(err).toContain("--to names the database that it is to come from");
  }
  const { code, err } = await run(["move", "--to", "away/copy.db"]);
  expect(code).toBe(0);
  expect(err).toContain("a copy to keep, or to take to another machine");
  expect(err).not.toContain("To go on with the new database");
});
