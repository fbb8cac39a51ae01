/** `rotunda token` and `rotunda audit`, by the built program. */
import { hash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import type { AuditRecord } from "../../src/types/audit.ts";
import type { Token } from "../../src/types/token.ts";
import { type Home, home } from "./run.ts";

const FORM = /^rtd_([0-9a-z]{12})_([0-9a-f]{64})\n$/;

const stateOf = ({ environment }: Home) => environment.ROTUNDA_HOME ?? "";

async function tokensOf({ run }: Home): Promise<(Token & { state: string })[]> {
  return JSON.parse((await run(["token", "list", "--json"])).out) as (Token & { state: string })[];
}

/** Changes the database behind the program's back. */
function tamper(place: Home, sql: string): void {
  const raw = new DatabaseSync(join(stateOf(place), "rotunda.db"));
  raw.exec(sql);
  raw.close();
}

describe("token", () => {
  test("prints the local token and nothing else, the same each time", async () => {
    const place = home();
    const first = await place.run(["token"]);
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.out).toMatch(/^[0-9a-f]{64}\n$/);
    expect((await place.run(["token", "show"])).out).toBe(first.out);
    const file = join(stateOf(place), "token");
    expect(readFileSync(file, "utf8")).toBe(first.out);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await place.run(["token", "nonsense"])).code).toBe(2);
  });

  test("add prints it once; neither it nor its hash is shown again or stored in the clear", async () => {
    const place = home();
    const made = await place.run(["token", "add", "phone", "--expires", "30d", "--events", "speakmcp"]);
    expect(made.code).toBe(0);
    expect(made.out).toMatch(FORM);
    expect(made.err).toContain("only time");
    const [, id = "", secret = ""] = FORM.exec(made.out) ?? [];
    const listed = await place.run(["token", "list"]);
    expect(listed.out).toContain(`phone  ${id}  in force  chat,responses:read,responses:write,tools:call`);
    const json = await place.run(["token", "list", "--json"]);
    for (const { out, err } of [listed, json]) {
      expect(out + err).not.toContain(secret);
      expect(out + err).not.toContain(hash("sha256", secret));
    }
    const [token] = await tokensOf(place);
    expect(token).toMatchObject({
      id,
      name: "phone",
      events: "speakmcp",
      profiles: null,
      limits: {},
      state: "in force",
    });
    expect(Math.abs((token?.expiresAt ?? 0) - Date.now() - 30 * 86_400_000)).toBeLessThan(600_000);
    const file = readFileSync(join(stateOf(place), "rotunda.db"));
    expect(file.includes(secret)).toBe(false);
    expect(file.includes(hash("sha256", secret))).toBe(true);
  });

  test("scopes, profiles and limits are as they were asked for; admin only when named", async () => {
    const place = home();
    const limits = [
      "--requests-per-second",
      "2.5",
      "--concurrent-runs",
      "3",
      "--streams",
      "4",
      "--tokens-per-day",
      "5",
    ];
    const flags = [
      "--scopes",
      "responses:read, chat",
      "--profiles",
      "explore,team-*",
      ...limits,
      "--cost-per-day",
      "0.5",
    ];
    const made = await place.run(["token", "add", "ci", ...flags, "--json"]);
    const { token, ...shown } = JSON.parse(made.out) as { token: string } & Token;
    expect(`${token}\n`).toMatch(FORM);
    expect(shown).toMatchObject({
      name: "ci",
      scopes: ["chat", "responses:read"],
      profiles: ["explore", "team-*"],
      limits: { requestsPerSecond: 2.5, concurrentRuns: 3, streams: 4, tokensPerDay: 5, costPerDay: 0.5 },
    });
    expect(made.err).toContain("team-*");
    expect(made.err).not.toContain("explore");
    await place.run(["token", "add", "operator", "--scopes", "admin"]);
    expect((await tokensOf(place)).map(({ scopes }) => scopes)).toEqual([["chat", "responses:read"], ["admin"]]);
  });

  test.each([
    [["token", "add", "x", "--scopes", "chat,everything"], "mcp:admin"],
    [["token", "add", "x", "--expires", "soon"], "--expires 30d"],
    [["token", "add", "x", "--profiles", ","], "--profiles"],
    [["token", "add", "x\u001b[31m"], "visible characters"],
    [["token", "add", "x", "--streams", "0"], "whole number"],
    [["token", "add"], "missing required argument"],
    [["token", "revoke", "nobody"], "there is no token"],
  ])("%j is refused with the way out", async (args, told) => {
    const place = home();
    const { code, out, err } = await place.run(args);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain(told);
    expect(await tokensOf(place)).toEqual([]);
  });

  test("a name is taken as long as its token is in force; revoke takes a name or an id", async () => {
    const place = home();
    const first = FORM.exec((await place.run(["token", "add", "phone"])).out)?.[1] ?? "";
    const refused = await place.run(["token", "add", "phone"]);
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toContain("already");
    expect((await place.run(["token", "revoke", "phone"])).code).toBe(0);
    const second = FORM.exec((await place.run(["token", "add", "phone"])).out)?.[1] ?? "";
    expect((await place.run(["token", "revoke", second])).code).toBe(0);
    const again = await place.run(["token", "revoke", "phone"]);
    expect(again.code).toBe(0);
    expect(again.err).toContain("before");
    expect((await tokensOf(place)).map(({ id, state }) => [id, state])).toEqual([
      [first, "revoked"],
      [second, "revoked"],
    ]);
  });
});

describe("audit", () => {
  test("tells of tokens made and revoked, newest at the end, and the chain is whole", async () => {
    const place = home();
    const empty = await place.run(["audit", "verify"]);
    expect(empty).toMatchObject({ code: 0, out: expect.stringMatching(/^0 records/) });
    for (const name of ["one", "two", "three"]) await place.run(["token", "add", name]);
    await place.run(["token", "revoke", "two"]);
    const records = JSON.parse((await place.run(["audit", "--json"])).out) as AuditRecord[];
    expect(records.map(({ sequence, action, who, intact }) => [sequence, action, who, intact])).toEqual(
      [1, 2, 3, 4].map((sequence) => [sequence, "token", "cli", true]),
    );
    expect(records[3]?.details).toMatchObject({ what: "revoke", name: "two" });
    expect(JSON.stringify(records)).not.toMatch(/secretHash|rtd_/);
    const lines = (await place.run(["audit", "--limit", "2"])).out.trimEnd().split("\n");
    expect(lines.map((line) => line.split("  ")[0])).toEqual(["3", "4"]);
    const verified = await place.run(["audit", "verify"]);
    expect(verified).toMatchObject({ code: 0, err: "" });
    expect(verified.out).toBe(`4 records, the chain is whole; the last hash is ${records[3]?.hash}\n`);
  });

  test.each([
    ["UPDATE audit SET body = replace(body, 'one', 'eno') WHERE sequence = 1", "record 1 "],
    ['UPDATE audit SET body = \'{"details":{},"at":"x"}\' WHERE sequence = 2', "record 2 "],
    ["DELETE FROM audit WHERE sequence = 2", "record 2 is missing"],
    ["DELETE FROM audit WHERE sequence = 3", "record 3 is missing: 3 were written, 2 are there"],
    ["DELETE FROM audit", "record 1 is missing: 3 were written, 0 are there"],
    ["DELETE FROM audit_end", "the note of the log's end is gone"],
  ])("verify exits 1 after %s", async (sql, told) => {
    const place = home();
    for (const name of ["one", "two", "three"]) await place.run(["token", "add", name]);
    tamper(place, sql);
    const { code, out } = await place.run(["audit", "verify"]);
    expect({ code, out: out.includes(told) }, out).toEqual({ code: 1, out: true });
    expect((await place.run(["audit"])).code).toBe(0);
    const json = JSON.parse((await place.run(["audit", "verify", "--json"])).out) as { intact: boolean; fault: string };
    expect(json).toMatchObject({ intact: false, fault: expect.stringContaining(told.trim()) });
  });
});
