/** The gateway: what servers list, answer, tell and ask reaches the clients of both generations that called. */
import type { Client } from "@modelcontextprotocol/client";
import { describe, expect, test } from "vitest";
import { serveModern } from "../fixtures/mcp/http-servers.ts";
import { later } from "../support.ts";
import { connect, type Era, http, startGateway, stdio, textOf, until } from "./gateway-support.ts";

const one = (folder: string) => [stdio(folder, "one")];
const two = (folder: string) => [stdio(folder, "one"), stdio(folder, "two")];
const bare = (config: { mcp: { gateway?: object } }) => {
  config.mcp.gateway = { prefix: false };
};
const names = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name);

describe.each<Era>(["legacy", "auto"])("a client that speaks %s", (era) => {
  test("sees the tools of all servers under unambiguous names, and results as they are", async () => {
    const gateway = await startGateway(two);
    const client = await connect(gateway, { era });
    const listed = await names(client);
    expect(listed).toEqual(expect.arrayContaining(["one__whoami", "two__whoami", "one__ask", "read_output"]));
    expect(await textOf(client, "one__whoami")).toBe("one");
    expect(await textOf(client, "two__whoami")).toBe("two");
    const echoed = await client.callTool({ name: "one__echo", arguments: { text: "hi" } });
    expect(echoed).toMatchObject({ content: [{ type: "text", text: "hi" }], _meta: { "example.com/kept": true } });
    const structured = await client.callTool({ name: "one__structured" });
    expect(structured.structuredContent).toEqual({ deep: [1, { two: 2 }] });
    expect(await textOf(client, "one__fails")).toBe("ERROR it went wrong");
    await expect(textOf(client, "one__nothing")).rejects.toThrow("Unknown tool: one__nothing");
    // A process for each server, whoever called it.
    expect(gateway.journal("one").filter((line) => line.startsWith("started"))).toHaveLength(1);
  });

  test("reads resources and templates of all servers by addresses that lead back", async () => {
    const gateway = await startGateway(two);
    const client = await connect(gateway, { era });
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toContain("hub://two/memo://one");
    const read = async (uri: string) => {
      const { contents } = await client.readResource({ uri });
      return contents.map((content) => ("text" in content ? `${content.uri} ${content.text}` : ""));
    };
    expect(await read("hub://one/memo://one")).toEqual(["hub://one/memo://one one of one"]);
    expect(await read("hub://two/memo://one")).toEqual(["hub://two/memo://one one of two"]);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual([
      "hub://one/memo://one/{number}",
      "hub://two/memo://two/{number}",
    ]);
    expect(await read("hub://two/memo://two/7")).toEqual(["hub://two/memo://two/7 number 7 of two"]);
    // The server's own address is enough where only one can mean it.
    expect(await read("memo://two/only")).toEqual(["hub://two/memo://two/only only two"]);
    await expect(read("memo://nowhere")).rejects.toMatchObject({ code: -32_602 });
    const { content } = await client.callTool({ name: "two__links" });
    expect(content).toMatchObject([{ uri: "hub://two/memo://one" }, { resource: { uri: "hub://two/memo://one" } }]);
  });

  test("gets prompts and completions", async () => {
    const gateway = await startGateway(two);
    const client = await connect(gateway, { era });
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(["one__travel", "two__travel"]);
    const { messages } = await client.getPrompt({ name: "two__travel", arguments: { city: "rome" } });
    expect(messages[0]?.content).toEqual({ type: "text", text: "two: to rome" });
    const ref = { type: "ref/prompt" as const, name: "one__travel" };
    const { completion } = await client.complete({ ref, argument: { name: "city", value: "par" } });
    expect(completion.values).toEqual(["paris", "parma"]);
  });

  test("has the servers' own names where it is wished, and prefixes for those that two have", async () => {
    const gateway = await startGateway(two, bare);
    const client = await connect(gateway, { era });
    expect(await names(client)).toContain("two__whoami");
    expect(await textOf(client, "two__whoami")).toBe("two");
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri).sort()).toEqual([
      "hub://one/memo://one",
      "hub://two/memo://one",
      "memo://one/only",
      "memo://two/only",
    ]);
    const alone = await startGateway(one, bare);
    const other = await connect(alone, { era });
    expect(await names(other)).toContain("whoami");
    expect(await textOf(other, "whoami")).toBe("one");
    expect(await textOf(other, "one__whoami")).toBe("one");
  });

  test("is asked by the server in the middle of its call, once or more often", async () => {
    const gateway = await startGateway(one);
    const asked: string[] = [];
    const client = await connect(gateway, {
      era,
      onQuestion: (message) => {
        asked.push(message);
        return message === "no?" ? undefined : { answer: `to ${message}` };
      },
    });
    // Servers learn at their start that questions can be answered.
    gateway.app.onElicitation(() => undefined);
    expect(await textOf(client, "one__ask", { question: "why?" })).toBe('accept {"answer":"to why?"}');
    expect(await textOf(client, "one__ask", { question: "no?" })).toBe("decline {}");
    expect(await textOf(client, "one__ask_twice")).toBe("to first? and to second?");
    expect(asked).toEqual(["why?", "no?", "first?", "second?"]);
  });

  test("is asked by a server of the newest protocol", async () => {
    const modern = await serveModern("reject");
    later(() => modern.close());
    const gateway = await startGateway(() => [http(modern.url)]);
    const asked: string[] = [];
    const client = await connect(gateway, {
      era,
      onQuestion: (message) => {
        asked.push(message);
        return {};
      },
    });
    const answered = client.callTool({ name: "remote__ask", arguments: {} }, { timeout: 5_000 });
    // It asks again whatever it is answered: what counts here is that the question arrives, and that this has an end.
    await answered.catch(() => undefined);
    expect(asked.length).toBeGreaterThan(1);
    expect(new Set(asked)).toEqual(new Set(["May I?"]));
    const routed = await client.callTool({ name: "remote__route", arguments: { region: "north" } });
    expect(routed.structuredContent).toEqual({ region: "north" });
  });

  test("hears of changes of lists", async () => {
    const gateway = await startGateway(one);
    const client = await connect(gateway, { era });
    const told: string[] = [];
    client.setNotificationHandler("notifications/tools/list_changed", () => void told.push("tools"));
    client.setNotificationHandler("notifications/prompts/list_changed", () => void told.push("prompts"));
    if (client.getProtocolEra() === "modern") await client.listen({ toolsListChanged: true, promptsListChanged: true });
    await names(client);
    told.length = 0;
    await textOf(client, "one__change");
    await until(() => told.includes("tools") && told.includes("prompts"));
    // M11: a storm is told a few times.
    await new Promise((resolve) => setTimeout(resolve, 200));
    told.length = 0;
    await textOf(client, "one__storm", { times: 500 });
    await until(() => told.includes("tools"));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(told.length).toBeLessThan(30);
  });

  test("hears of the resources that it has subscribed to", async () => {
    const gateway = await startGateway(two);
    const client = await connect(gateway, { era });
    const updated: string[] = [];
    client.setNotificationHandler("notifications/resources/updated", ({ params }) => void updated.push(params.uri));
    const uri = "hub://two/memo://one";
    const listening =
      client.getProtocolEra() === "modern" ? await client.listen({ resourceSubscriptions: [uri] }) : undefined;
    if (!listening) await client.subscribeResource({ uri });
    await textOf(client, "one__update", { uri: "memo://one" });
    await textOf(client, "two__update", { uri: "memo://one" });
    await until(() => updated.length > 0);
    expect(updated).toEqual([uri]);
    expect(gateway.journal("two")).toContain("subscribe memo://one");
    if (listening) await listening.close();
    else await client.unsubscribeResource({ uri });
    await until(() => gateway.journal("two").includes("unsubscribe memo://one"));
  });
});

test("two clients get their own progress and their own log lines from one process", async () => {
  const gateway = await startGateway(one);
  const heard = async (era: Era, word: string) => {
    const client = await connect(gateway, { era });
    const progress: string[] = [];
    const onprogress = ({ message }: { message?: string | undefined }) => void progress.push(String(message));
    expect(await textOf(client, "one__progress", { word, steps: 4 }, { onprogress })).toBe(word);
    return progress;
  };
  const [left, right] = await Promise.all([heard("legacy", "left"), heard("auto", "right")]);
  expect(left).toEqual(["left 1", "left 2", "left 3", "left 4"]);
  expect(right).toEqual(["right 1", "right 2", "right 3", "right 4"]);
});

test("log lines go to the client whose call they belong to, by its own level, and in doubt to nobody", async () => {
  const gateway = await startGateway(one);
  const lines = async (token: string) => {
    const client = await connect(gateway, { era: "legacy", token });
    const heard: unknown[] = [];
    client.setNotificationHandler("notifications/message", ({ params }) => void heard.push(params.data));
    return { client, heard };
  };
  const mine = await lines(gateway.token);
  await mine.client.setLoggingLevel("warning");
  const theirs = await lines(await gateway.tokenOf("theirs", ["tools:call"]));
  await textOf(mine.client, "one__log", { word: "alone", milliseconds: 20 });
  await until(() => mine.heard.length > 0);
  expect(mine.heard).toEqual(["alone"]);
  expect(theirs.heard).toEqual([]);
  // Two owners at once, over a wire that does not say which call a line belongs to.
  await Promise.all([
    textOf(mine.client, "one__log", { word: "secret of mine", milliseconds: 200 }),
    textOf(theirs.client, "one__log", { word: "secret of theirs", milliseconds: 200 }),
  ]);
  expect(mine.heard).not.toContain("secret of theirs");
  expect(theirs.heard).not.toContain("secret of mine");
});
