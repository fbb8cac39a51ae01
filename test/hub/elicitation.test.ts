/** M17, S36: servers' questions reach a person, and nobody else answers them. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Elicitations } from "../../src/hub/elicitation.ts";
import { contentFault, formFault } from "../../src/hub/elicitation-schema.ts";
import type { ServerConfig } from "../../src/types/config.ts";
import type { Elicitation } from "../../src/types/elicitation.ts";
import { call, context, fixtures, hostile, openHub, temporaryDirectory, tool, until } from "./support.ts";

const asking = (era: "modern" | "both", config: Partial<ServerConfig> = {}): ServerConfig => ({
  name: "asking",
  transport: "stdio",
  command: process.execPath,
  args: [join(fixtures, "asking.ts"), era],
  disabled: false,
  origin: "test",
  ...config,
});

function answering(open = true, patience?: number) {
  const asked: Elicitation[] = [];
  const door = {
    open: () => open,
    asked: (elicitation: Elicitation) => void asked.push(elicitation),
    ...(patience !== undefined && { patience }),
  };
  return { asked, door };
}

describe.each(["both", "modern"] as const)("a server that speaks %s", (era) => {
  it("asks a person in the middle of a call, and gets the answer", async () => {
    const directory = temporaryDirectory();
    const { asked, door } = answering();
    const hub = openHub(directory, [asking(era)], { elicitation: door });
    const calling = call(hub, "asking__confirm");
    await until(() => asked.length === 1);
    expect(hub.elicitations()).toEqual(asked);
    const [elicitation] = asked;
    expect(elicitation).toMatchObject({
      id: expect.stringMatching(/^eli_/),
      server: "asking",
      mode: "form",
      message: "Who are you?\\u{202e}",
      requestedSchema: { type: "object", required: ["name"] },
      url: null,
    });
    expect((elicitation?.expiresAt ?? 0) - (elicitation?.createdAt ?? 0)).toBe(300_000);
    const id = elicitation?.id ?? "";
    const answer = (content: object) => () => hub.answerElicitation(id, { action: "accept", content: { ...content } });
    expect(answer({})).toThrow(/name is missing/);
    expect(answer({ name: "x" })).toThrow(/shorter than 2/);
    expect(answer({ name: "xx", count: 0 })).toThrow(/less than 1/);
    expect(answer({ name: "xx", colour: "blue" })).toThrow(/none of red, green/);
    expect(answer({ name: "xx", password: "p" })).toThrow(/was not asked for/);
    answer({ name: "Ada", count: 2 })();
    expect(answer({ name: "Eve" })).toThrow(expect.objectContaining({ code: "not_found" }));
    expect(JSON.parse((await calling).text)).toMatchObject({ action: "accept", content: { name: "Ada", count: 2 } });
    expect(hub.elicitations()).toEqual([]);
  });

  it("shows a link, and takes a no", async () => {
    const directory = temporaryDirectory();
    const { asked, door } = answering();
    const hub = openHub(directory, [asking(era)], { elicitation: door });
    const calling = call(hub, "asking__link");
    await until(() => asked.length === 1);
    expect(asked[0]).toMatchObject({
      mode: "url",
      url: "https://sign-in.example.com/start?x=1",
      requestedSchema: null,
    });
    hub.answerElicitation(asked[0]?.id ?? "", { action: "decline" });
    expect((await calling).text).toContain("decline");
  });

  it("is told that the person said nothing, when the time is over", async () => {
    const directory = temporaryDirectory();
    const { asked, door } = answering(true, 50);
    const hub = openHub(directory, [asking(era)], { elicitation: door });
    expect((await call(hub, "asking__confirm")).text).toContain("cancel");
    expect(asked).toHaveLength(1);
    expect(hub.elicitations()).toEqual([]);
  });

  it("while a person thinks, the call's time stands still", async () => {
    const directory = temporaryDirectory();
    const { asked, door } = answering();
    const hub = openHub(directory, [asking(era, { timeout: 1 })], { elicitation: door });
    const calling = call(hub, "asking__confirm");
    await until(() => asked.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    hub.answerElicitation(asked[0]?.id ?? "", { action: "accept", content: { name: "Slow" } });
    expect((await calling).text).toContain("Slow");
  });

  it("a call that is cancelled takes its question along", async () => {
    const directory = temporaryDirectory();
    const { asked, door } = answering();
    const hub = openHub(directory, [asking(era)], { elicitation: door });
    const controller = new AbortController();
    const calling = call(hub, "asking__confirm", {}, controller.signal);
    await until(() => asked.length === 1);
    controller.abort();
    expect((await calling).text).toMatch(/cancelled/);
    await until(() => hub.elicitations().length === 0);
  });

  it("is told that nobody can be asked where nobody can", async () => {
    const directory = temporaryDirectory();
    const { asked, door } = answering(false);
    const hub = openHub(directory, [asking(era)], { elicitation: door });
    const result = await (await tool(hub, "asking__confirm")).run({}, context());
    expect(result.isError).toBe(true);
    expect(asked).toEqual([]);
  });
});

describe("limits", () => {
  it("a call that says nothing still ends in its time, where persons can be asked", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "hang" }, { timeout: 0.3 });
    const hub = openHub(directory, [server], { elicitation: answering().door });
    expect((await call(hub, "hostile__echo")).text).toMatch(/timed out after 0.3 s/);
    await until(() => server.journal().some((line) => line.startsWith("cancelled")));
  });

  it("sampling and roots stay refused; a form that is none is declined without asking", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "asks" });
    const { asked, door } = answering();
    const hub = openHub(directory, [server], { elicitation: door });
    expect((await call(hub, "hostile__echo", { text: "done" })).text).toBe("done");
    const replies = server.journal().filter((line) => line.startsWith("reply"));
    expect(replies).toHaveLength(3);
    for (const reply of replies) expect(reply).not.toContain("accept");
    expect(asked).toEqual([]);
  });

  it("a server has at most twenty open; links other than http(s) and schemas that are no forms are declined", async () => {
    const { asked, door } = answering();
    const desk = new Elicitations(door, Date.now);
    const { signal } = new AbortController();
    const form = { message: "?", requestedSchema: { type: "object", properties: {} } };
    const open = Array.from({ length: 20 }, () => desk.ask("s", form, signal));
    expect(await desk.ask("s", form, signal)).toEqual({ action: "cancel" });
    const other = desk.ask("other", form, signal);
    expect(asked).toHaveLength(21);
    for (const url of ["file:///etc/passwd", "javascript:alert(1)", "https://", "x"]) {
      expect(await desk.ask("t", { mode: "url", message: "?", url }, signal)).toEqual({ action: "decline" });
    }
    const nested = { type: "object", properties: { a: { type: "object" } } };
    expect(await desk.ask("t", { message: "?", requestedSchema: nested }, signal)).toEqual({ action: "decline" });
    desk.close();
    expect(await Promise.all([...open, other])).toEqual(Array.from({ length: 21 }, () => ({ action: "cancel" })));
  });

  it("forms: what is one, and what fits it", () => {
    const schema = {
      type: "object",
      properties: {
        mail: { type: "string", format: "email" },
        site: { type: "string", format: "uri" },
        day: { type: "string", format: "date" },
        when: { type: "string", format: "date-time" },
        titled: { type: "string", oneOf: [{ const: "a", title: "A" }] },
        many: { type: "array", items: { type: "string", enum: ["x", "y"] }, maxItems: 1 },
        share: { type: "number", maximum: 1 },
        yes: { type: "boolean" },
      },
    };
    expect(formFault(schema)).toBeUndefined();
    const fitting = {
      mail: "a@b.c",
      site: "https://x.example.com",
      day: "2026-02-03",
      when: "2026-02-03T04:05:06Z",
      titled: "a",
      many: ["x"],
      share: 0.5,
      yes: false,
    };
    expect(contentFault(schema, fitting)).toBeUndefined();
    const wrong: [string, string | number | string[]][] = [
      ["mail", "nobody"],
      ["site", "no address"],
      ["day", "3.2.2026"],
      ["when", "2026-02-03"],
      ["titled", "b"],
      ["many", ["z"]],
      ["many", ["x", "y"]],
      ["share", 2],
      ["yes", "true"],
      ["__proto__", "x"],
    ];
    for (const [name, value] of wrong) {
      expect(contentFault(schema, Object.fromEntries([[name, value]])), name).toMatch(new RegExp(`^${name} `));
    }
    for (const none of [null, [], { type: "string" }, { type: "object" }, { type: "object", properties: { a: 1 } }]) {
      expect(formFault(none)).toEqual(expect.any(String));
    }
    const wide = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`p${index}`, { type: "string" }]));
    expect(formFault({ type: "object", properties: wide })).toMatch(/more than 100/);
  });
});
