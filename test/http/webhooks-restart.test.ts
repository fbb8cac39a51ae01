/** What is told survives the process: signals, `kill -9`, and runs of commands that a server knows nothing of. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startUpstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";
import { type Server, startBackground, startServer } from "./process.ts";
import { startReceiver } from "./receiver.ts";

const SLOW = { timeout: 90_000 };
const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));
const asking = join(import.meta.dirname, "../fixtures/mcp/asking.ts");

const script: UpstreamScript = ({ body }) => {
  const messages = body.messages as { role: string }[];
  if (messages.at(-1)?.role === "tool") return { text: "done" };
  const asked = JSON.stringify(messages.at(-1));
  if (asked.includes("#write")) return { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] };
  if (asked.includes("#stay")) return { silent: "hang" };
  return { text: "hello" };
};

async function upstreamUrl(): Promise<string> {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  return upstream.url;
}

async function post(server: Server, path: string, json: object): Promise<unknown> {
  const answer = await fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.token}`, "content-type": "application/json" },
    body: JSON.stringify(json),
  });
  expect(answer.status).toBe(200);
  return answer.json();
}

test("SIGTERM with all of it on: it ends within ten seconds, and the next one tells what was left", SLOW, async () => {
  const [folder, upstream] = [temporaryFolder(), await upstreamUrl()];
  const away = await startReceiver(() => ({ status: 200, silent: true }));
  const config = {
    server: { webhooks: [{ url: away.url, secret: "s3cret" }], notify: "echo begun >> tries; sleep 60" },
    mcpServers: { asking: { command: process.execPath, args: [asking, "both"] } },
  };
  const first = await startServer(folder, upstream, config);
  const waiting = await startBackground(first, "#write");
  const stays = await startBackground(first, "#stay");
  const told = await startBackground(first, "hi");
  await expect.poll(() => away.told.length, { timeout: 20_000 }).toBe(2);
  await expect.poll(() => existsSync(join(folder, "workspace", "tries")), { timeout: 20_000 }).toBe(true);
  const before = performance.now();
  expect(await first.stop("SIGTERM")).toBe(0);
  expect(performance.now() - before).toBeLessThan(10_000);
  expect(first.log()).not.toContain("s3cret");

  const { port } = new URL(away.url);
  away.close();
  const back = await startReceiver(undefined, Number(port));
  const notify = "cat >> notified";
  const second = await startServer(folder, upstream, { ...config, server: { ...config.server, notify } });
  await expect.poll(() => back.told.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(2);
  expect(back.types(told)).toEqual(["response.completed"]);
  // It was told that it waits once, and goes on waiting without being told again.
  expect(back.types(waiting)).toEqual(["response.waiting"]);
  const [{ data } = { data: undefined }] = back.told
    .filter(({ event }) => event.data.id === waiting)
    .map(({ event }) => event);
  await post(second, "/v1/tool-approval", { approvalId: data?.approval_ids[0], approved: true });
  await post(second, `/v1/responses/${stays}/cancel`, {});
  await expect.poll(() => back.types(waiting)).toEqual(["response.waiting", "response.completed"]);
  await expect.poll(() => back.types(stays)).toEqual(["response.cancelled"]);
  const notified = () => readFileSync(join(folder, "workspace", "notified"), "utf8");
  await expect.poll(notified, { timeout: 10_000 }).toContain(stays);
  expect(await second.stop("SIGTERM")).toBe(0);
});

test("kill -9 in the middle of a delivery: it is made again at once, with the same id", SLOW, async () => {
  const [folder, upstream] = [temporaryFolder(), await upstreamUrl()];
  let silent = true;
  const receiver = await startReceiver(() => ({ status: 200, silent }));
  const config = { server: { webhooks: [{ url: receiver.url, secret: "s3cret" }] } };
  const first = await startServer(folder, upstream, config);
  const id = await startBackground(first, "hi");
  await expect.poll(() => receiver.told.length, { timeout: 20_000 }).toBe(1);
  expect(await first.stop("SIGKILL")).toBe("SIGKILL");
  silent = false;
  await startServer(folder, upstream, config);
  await expect.poll(() => receiver.told.length, { timeout: 20_000 }).toBe(2);
  expect(receiver.types(id)).toEqual(["response.completed", "response.completed"]);
  const [one, two] = receiver.told.map(({ headers }) => headers["webhook-id"]);
  expect(one).toBe(two);
});

test("a command's own run, while no server was there, is told by the next server", SLOW, async () => {
  const [folder, upstream] = [temporaryFolder(), await upstreamUrl()];
  const receiver = await startReceiver();
  const config = { server: { webhooks: [{ url: receiver.url, secret: "s3cret" }] } };
  const first = await startServer(folder, upstream, config);
  expect(await first.stop("SIGTERM")).toBe(0);
  const { PATH } = process.env;
  const env = { PATH, HOME: folder, ROTUNDA_HOME: join(folder, "state"), ROTUNDA_CONFIG: join(folder, "rotunda.yaml") };
  const command = spawn(process.execPath, [program, "chat", "hi"], {
    cwd: join(folder, "workspace"),
    env,
    stdio: "ignore",
  });
  expect((await once(command, "exit"))[0]).toBe(0);
  expect(receiver.told).toEqual([]);
  await startServer(folder, upstream, config);
  await expect.poll(() => receiver.told.length, { timeout: 20_000 }).toBe(1);
  expect(receiver.told[0]?.event).toMatchObject({ type: "response.completed", data: { door: "cli" } });
});
