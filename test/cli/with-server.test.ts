/** The command line beside a server on the same machine: it hands its turns over, and they outlive it. */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import WebSocket from "ws";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { startInServer } from "../../src/doors/cli/remote.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { newId } from "../../src/util/ids.ts";
import { later } from "../support.ts";
import { type Home, home, type Started } from "./run.ts";

async function endpoint(script: Parameters<typeof startUpstream>[0]) {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  return upstream;
}

/** A user's own configuration: it needs no trust, and server and command line find the same. */
function configure(at: Home, url: string): void {
  const file = join(at.workspace, "..", "rotunda.yaml");
  const model = { id: "test-model", baseUrl: url, apiKey: "sk-test-0123456789" };
  writeFileSync(file, JSON.stringify({ models: [model] }));
  at.environment.ROTUNDA_CONFIG = file;
}

async function startServer(at: Home): Promise<Started> {
  const server = at.start(["serve", "--port", "0", "--quiet"]);
  later(() => void server.child.kill("SIGKILL"));
  await until(() => server.out().includes("listening on"));
  return server;
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not come true");
}

test("a turn runs in the server, in the directory of the command line", async () => {
  const upstream = await endpoint([
    { calls: [{ name: "bash", arguments: { command: "pwd; echo $PPID" } }] },
    { text: ["Do", "ne."] },
  ]);
  const at = home();
  configure(at, upstream.url);
  const server = await startServer(at);
  const { code, out } = await at.run(["chat", "Where?", "--mode", "auto"]);
  expect({ code, out: out.trim() }).toEqual({ code: 0, out: "Done." });
  expect(JSON.stringify(upstream.requests[1]?.body.messages)).toContain(at.workspace);
  // The server's own start asked nobody: both requests came over the same process's pool.
  expect(upstream.requests).toHaveLength(2);
  server.child.kill("SIGTERM");
  expect((await server.result).code).toBe(0);
});

test("the program as it is shipped speaks WebSocket: none of its packages' native helpers are needed", async () => {
  const upstream = await endpoint([{ text: "Hello." }]);
  const at = home();
  configure(at, upstream.url);
  const server = await startServer(at);
  const address = /http:\S+/.exec(server.out())?.[0] ?? "";
  const token = (await at.run(["token"])).out.trim();
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`${address.replace("http", "ws")}/v1/responses`, { headers });
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "response.create", input: "Hi", padding: "ä".repeat(70_000) }));
  const said: string[] = [];
  socket.on("message", (data) => void said.push(String(data)));
  await until(() => said.some((text) => text.includes('"response.completed"')));
  expect(said.join("")).toContain("Hello.");
  socket.close();
});

test("the command line goes away, the turn goes on, and can be seen again", async () => {
  const upstream = await endpoint([{ text: ["a ", "b ", "c ", "end"], delay: 150 }]);
  const at = home();
  configure(at, upstream.url);
  await startServer(at);
  const chat = at.start(["chat", "Tell me", "--output-format", "stream-json"]);
  await until(() => chat.out().includes("output_text.delta"));
  chat.child.kill("SIGKILL");
  await chat.result;
  await until(async () => (await at.run(["log", "--json"])).out.includes('"completed"'));
  expect((await at.run(["log"])).out).toContain("Tell me");
});

test("Ctrl-C cancels the turn in the server", async () => {
  const upstream = await endpoint([{ text: ["a ", "b "], delay: 50, break: "hang" }]);
  const at = home();
  configure(at, upstream.url);
  await startServer(at);
  const chat = at.start(["chat", "Tell me"]);
  await until(() => chat.out().includes("a"));
  chat.child.kill("SIGINT");
  expect((await chat.result).code).toBe(130);
  expect(await upstream.requests[0]?.gone).toBe(true);
});

test("SIGTERM ends the command line, not the turn", async () => {
  const upstream = await endpoint([{ text: ["a ", "b ", "c ", "end"], delay: 200 }]);
  const at = home();
  configure(at, upstream.url);
  await startServer(at);
  const chat = at.start(["chat", "Tell me"]);
  await until(() => chat.out().includes("a"));
  chat.child.kill("SIGTERM");
  const { code, err } = await chat.result;
  expect(code).toBe(143);
  expect(err).toContain("It goes on in the server");
  await until(async () => (await at.run(["log", "--json"])).out.includes('"completed"'));
});

test("with other keys than the server's it runs by itself", async () => {
  const [first, second] = [await endpoint([{ text: "from the first" }]), await endpoint([{ text: "from the second" }])];
  const at = home();
  configure(at, first.url);
  await startServer(at);
  const { code, out } = await at.run(["chat", "Hi", "--api-base-url", second.url, "--api-key", "sk-other-0123456789"]);
  expect({ code, out: out.trim() }).toEqual({ code: 0, out: "from the second" });
  expect(first.requests).toEqual([]);
});

test("a model that does not exist is the same mistake wherever it would run", async () => {
  const upstream = await endpoint([{ text: "x" }]);
  const at = home();
  configure(at, upstream.url);
  await startServer(at);
  const { code, err } = await at.run(["chat", "Hi", "--model", "nope"]);
  expect(code).toBe(2);
  expect(err).toContain("nope");
});

test("a call that needs a person waits in the server; approve goes on there", async () => {
  const upstream = await endpoint([
    { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "hello" } }] },
    { text: "Written." },
  ]);
  const at = home();
  configure(at, upstream.url);
  await startServer(at);
  const { code, err } = await at.run(["chat", "Write"]);
  expect(code).toBe(3);
  const [, id = ""] = /rotunda approve (\S+)/.exec(err) ?? [];
  const approved = await at.run(["approve", id]);
  expect(approved.code).toBe(0);
  await until(() => {
    try {
      return readFileSync(join(at.workspace, "a.txt"), "utf8") === "hello";
    } catch {
      return false;
    }
  });
});

test("a turn with a picture runs in the server too", async () => {
  const upstream = await endpoint([{ text: "A dot." }]);
  const at = home();
  configure(at, upstream.url);
  const server = await startServer(at);
  const { workspace, environment } = at;
  const config = await loadConfig({ workspace, environment, flags: {} });
  const app = await createApp({ config, workspace, environment: config.environment });
  later(() => app.close());
  const image_url = "data:image/png;base64,iVBORw0KGgo=";
  const content = [
    { type: "input_text" as const, text: "What is it?" },
    { type: "input_image" as const, image_url },
  ];
  const item = {
    type: "message" as const,
    id: newId("msg"),
    role: "user" as const,
    status: "completed" as const,
    content,
  };
  const node = await startInServer(app, { input: [item], workspace, door: "tui" });
  expect((await app.engine.wait(node?.id ?? "")).status).toBe("completed");
  expect(JSON.stringify(upstream.requests[0]?.body)).toContain(image_url);
  const nothing = startInServer(app, { input: [], workspace, door: "tui" });
  await expect(nothing).rejects.toMatchObject({ code: "usage" });
  server.child.kill("SIGTERM");
  await server.result;
});

test("a stranger cannot name a directory", async () => {
  const upstream = await endpoint([{ text: "x" }]);
  const at = home();
  configure(at, upstream.url);
  const server = await startServer(at);
  const { out: token } = await at.run(["token", "add", "phone", "--scopes", "admin,chat"]);
  const [, url = ""] = /listening on (\S+)/.exec(server.out()) ?? [];
  const answer = await fetch(`${url}/rotunda/runs`, {
    method: "POST",
    headers: { authorization: `Bearer ${token.trim()}`, "content-type": "application/json" },
    body: JSON.stringify({ input: "x", workspace: "/", fingerprint: "x", settings: {}, interactive: false }),
  });
  expect(answer.status).toBe(403);
});

test("a server on another database is named, and gets no turn that nobody here would find", async () => {
  const upstream = await endpoint([{ text: "here" }]);
  const at = home();
  configure(at, upstream.url);
  await startServer(at);
  const file = join(at.environment.ROTUNDA_HOME ?? "", "server.json");
  const server = JSON.parse(readFileSync(file, "utf8")) as object;
  writeFileSync(file, JSON.stringify({ ...server, database: "another one" }));
  const chat = await at.run(["chat", "Hello"]);
  expect(chat).toMatchObject({ code: 0, out: "here\n" });
  expect(chat.err).toContain("works on another database");
  expect((await at.run(["log"])).err).toContain("works on another database");
});
