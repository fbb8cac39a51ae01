/** The gateway's faults: servers that die, hang and flood, and clients that go away. */
import { describe, expect, test } from "vitest";
import { connect, type Era, startGateway, stdio, textOf, until } from "./gateway-support.ts";

const one = (folder: string) => [stdio(folder, "one")];

describe.each<Era>(["legacy", "auto"])("a client that speaks %s", (era) => {
  test("M1 a server that dies fails its call and nothing else, and is there again for the next", async () => {
    const gateway = await startGateway((folder) => [stdio(folder, "one"), stdio(folder, "two")]);
    const client = await connect(gateway, { era });
    const waiting = textOf(client, "two__log", { word: "x", milliseconds: 500 });
    expect(await textOf(client, "one__die")).toMatch(
      /^ERROR \[Tool call failed: MCP server one: .*exited with code 3/s,
    );
    expect(await waiting).toBe("logged");
    await until(async () => (await textOf(client, "one__whoami")) === "one");
    expect(gateway.journal("one").filter((line) => line.startsWith("started"))).toHaveLength(2);
    expect(gateway.journal("one").filter((line) => line === "die")).toHaveLength(1);
  });

  test("M3 a server that hangs is told to stop when its time is over", async () => {
    const gateway = await startGateway((folder) => [stdio(folder, "one", { timeout: 1 })]);
    const client = await connect(gateway, { era });
    expect(await textOf(client, "one__hang")).toMatch(/ERROR .*MCP server one: .*It may have taken effect/s);
    await until(() => gateway.journal("one").includes("hang cancelled"));
    // Progress says that it does not hang.
    const onprogress = () => undefined;
    const long = textOf(client, "one__progress", { word: "slow", steps: 50 }, { onprogress });
    expect(await long).toBe("slow");
  });

  test("a client that cancels its call has the server told so", async () => {
    const gateway = await startGateway(one);
    const client = await connect(gateway, { era });
    const cancel = new AbortController();
    const call = textOf(client, "one__hang", {}, { signal: cancel.signal });
    await until(() => gateway.journal("one").includes("hang"));
    cancel.abort();
    await expect(call).rejects.toThrow();
    await until(() => gateway.journal("one").includes("hang cancelled"));
    expect(await textOf(client, "one__whoami")).toBe("one");
  });

  test("a client that goes away in the middle of its call has it cancelled", async () => {
    const gateway = await startGateway(one);
    const client = await connect(gateway, { era });
    const other = await connect(gateway, { era });
    const call = textOf(client, "one__hang").catch(() => "gone");
    await until(() => gateway.journal("one").includes("hang"));
    await client.close();
    await until(() => gateway.journal("one").includes("hang cancelled"));
    expect(await call).toBe("gone");
    expect(await textOf(other, "one__whoami")).toBe("one");
  });

  test("a server that is not there is missing from the lists, and its tools say why", async () => {
    const missing = { name: "gone", transport: "stdio" as const, command: "/nowhere/server", args: [] };
    const gateway = await startGateway((folder) => [
      stdio(folder, "one"),
      { ...missing, disabled: false, origin: "test" },
    ]);
    const client = await connect(gateway, { era });
    const { tools } = await client.listTools();
    expect(tools.some(({ name }) => name === "one__whoami")).toBe(true);
    expect((await client.listPrompts()).prompts).toHaveLength(1);
    expect((await client.listResources()).resources).toHaveLength(2);
  });

  test("a server that is turned off is gone for every client, without a new connection", async () => {
    const gateway = await startGateway((folder) => [stdio(folder, "one"), stdio(folder, "two")]);
    const client = await connect(gateway, { era });
    const hub = await gateway.app.hub();
    expect(await textOf(client, "two__whoami")).toBe("two");
    await hub?.stop("two");
    await expect(textOf(client, "two__whoami")).rejects.toThrow("Unknown tool");
    expect((await client.listTools()).tools.some(({ name }) => name.startsWith("two__"))).toBe(false);
    await hub?.restart("two");
    expect(await textOf(client, "two__whoami")).toBe("two");
  });
});

test("a question that nobody answers does not keep a call of somebody else", async () => {
  const gateway = await startGateway(one);
  gateway.app.onElicitation(() => undefined);
  const client = await connect(gateway, { era: "legacy", onQuestion: () => ({ answer: "mine" }) });
  const mute = await connect(gateway, { era: "legacy", token: await gateway.tokenOf("mute", ["tools:call"]) });
  const hanging = textOf(mute, "one__hang").catch(() => "cancelled");
  await until(() => gateway.journal("one").includes("hang"));
  // Two owners have calls under way: whose question this is cannot be known, so no client is asked.
  const asking = textOf(client, "one__ask", { question: "whose?" });
  await until(() => gateway.app.elicitations().length === 1);
  const [elicitation] = gateway.app.elicitations();
  gateway.app.answerElicitation(elicitation?.id ?? "", { action: "decline" });
  expect(await asking).toBe("decline {}");
  await mute.close();
  await hanging;
});

test("16 clients at once get their own answers", async () => {
  const gateway = await startGateway(one);
  const clients = await Promise.all(
    Array.from({ length: 16 }, (_, at) => connect(gateway, { era: at % 2 === 0 ? "legacy" : "auto" })),
  );
  const rounds = Array.from({ length: 10 }, (_, round) => round);
  const answers = await Promise.all(
    clients.flatMap((client, at) => rounds.map((round) => textOf(client, "one__echo", { text: `${at} ${round}` }))),
  );
  expect(answers).toEqual(clients.flatMap((_, at) => rounds.map((round) => `${at} ${round}`)));
  expect(gateway.journal("one").filter((line) => line.startsWith("started"))).toHaveLength(1);
});
