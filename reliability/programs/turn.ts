/**
 * One turn in a process that is killed at a commit, or goes on with what such a process has left. Argument: one JSON
 * object, see `TurnWork`; home, state and configuration come by the usual variables.
 *
 * Invariant: what it was told stands in the observed file at the moment when it is told: that is what a client has seen.
 */
import { appendFileSync } from "node:fs";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { createHttpDoor } from "../../src/doors/http/server.ts";
import { Upkeep } from "../../src/doors/http/upkeep.ts";
import type { App } from "../../src/types/app.ts";

export interface TurnWork {
  input: string;
  model: string;
  /** Through the HTTP door, in the background. */
  http: boolean;
  observed: string;
  /** Kill at this commit (from 1); 0: never. */
  killAt: number;
  moment: "before" | "after";
  resume: boolean;
  /** Deltas share rows in the tail from so many responses on. */
  crowd?: number;
}

const work = JSON.parse(process.argv[2] ?? "{}") as TurnWork;
const tell = (line: object) => appendFileSync(work.observed, `${JSON.stringify(line)}\n`);

let commits = 0;
const probe = (moment: "before" | "after") => {
  if (moment === "before") commits++;
  if (commits === work.killAt && moment === work.moment) process.kill(process.pid, "SIGKILL");
};

const workspace = process.cwd();
const environment = process.env;
const config = await loadConfig({ workspace, environment });
const store = { probe, ...(work.crowd !== undefined && { crowd: work.crowd }) };
const app = await createApp({ config, workspace, environment, store });
await (work.http ? overHttp(app) : inProcess(app));
await app.close();
tell({ commits });

// ---- as a program that uses the engine

async function inProcess({ engine, store: stored }: App): Promise<void> {
  const { input, model } = work;
  let ids: string[];
  if (work.resume) {
    const open = await stored.list({ status: ["queued", "in_progress", "waiting"] });
    ids = open.filter(({ caller }) => caller === null).map(({ id }) => id);
    for (const id of ids) await goOn(id);
    if (ids.length === 0) ids = (await stored.list({ roots: true })).map(({ id }) => id);
  } else {
    const { id } = await engine.start({ input, model, workspace, door: "test" });
    tell({ acknowledged: id });
    ids = [id];
  }
  for (const id of ids) {
    let last = -1;
    for (;;) {
      for await (const event of engine.watch(id, last)) {
        tell({ id, event: JSON.stringify(event) });
        last = event.sequence_number;
      }
      if ((await engine.wait(id)).status !== "waiting") break;
      await goOn(id);
    }
  }
}

/** Answers what waits for a person; what was answered already goes on. */
async function goOn(id: string): Promise<void> {
  const { engine, store: stored } = app;
  const asked = await stored.approvals({ responseId: id });
  for (const { id: approval, status } of asked) {
    if (status === "pending") await engine.decide(approval, { decision: "allow", by: "test" });
    await engine.goOn(approval);
  }
  if (asked.length === 0) await engine.resume(id);
}

// ---- as a client of the server

async function overHttp(served: App): Promise<void> {
  const door = createHttpDoor(served, { port: 0, accessLog: false, log: () => undefined, localToken: "t".repeat(43) });
  const url = await door.listen();
  const upkeep = new Upkeep(door.services);
  const headers = {
    authorization: `Bearer ${"t".repeat(43)}`,
    "content-type": "application/json",
    "idempotency-key": "one",
  };
  if (work.resume) await upkeep.start(() => undefined);
  // After a crash the client repeats its request, with its key.
  const body = JSON.stringify({ model: work.model, input: work.input, background: true });
  const { id } = (await (await fetch(`${url}/v1/responses`, { method: "POST", headers, body })).json()) as {
    id: string;
  };
  tell({ acknowledged: id });
  const { authorization } = headers;
  const stream = await fetch(`${url}/v1/responses/${id}?stream=true`, { headers: { authorization } });
  let rest = "";
  for await (const piece of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    rest += piece;
    for (let end = rest.indexOf("\n\n"); end !== -1; end = rest.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(rest.slice(0, end))?.[1] ?? "[DONE]";
      rest = rest.slice(end + 2);
      if (data !== "[DONE]") tell({ id, event: data });
    }
  }
  await upkeep.close();
  await door.close({ seconds: 0 });
}
