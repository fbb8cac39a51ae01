/**
 * Part `poison`: a response brings the server down whenever it runs.
 *
 * Invariant: after three crashes it is ended, the server starts and stays, and nobody else's work is lost.
 */
import { question } from "./endpoint.ts";
import { none, type Outcome, type Part, type Setting } from "./part.ts";
import { eventually } from "./server.ts";
import { type Storm, weather } from "./storm.ts";

const MARK = "a poisoned question";

/** How often the model was asked for it: each time it runs, it asks. */
function asked({ endpoint }: Storm): number {
  return endpoint.requests.filter(({ body }) => JSON.stringify(body).includes(MARK)).length;
}

async function poisoned(storm: Storm): Promise<{ crashes: number; status: string; log: string }> {
  const [server] = storm.servers;
  if (!server) throw new Error("no server");
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const input = `${MARK} ${question({ latency: 60_000 })}`;
  const body = JSON.stringify({ model: "test-model", input, background: true });
  const made = await fetch(`${server.url}/v1/responses`, { method: "POST", headers, body });
  const { id } = (await made.json()) as { id: string };
  storm.history.acknowledge(id, "poison");
  for (let crashes = 0; ; crashes++) {
    let status = "";
    const runs = await eventually(async () => {
      const response = await fetch(`${server.url}/v1/responses/${id}`, { headers });
      status = ((await response.json()) as { status: string }).status;
      return asked(storm) > crashes || status === "incomplete";
    });
    if (!runs || status === "incomplete" || crashes > 8) return { crashes, status, log: server.log };
    await server.stop("SIGKILL");
    await server.start();
  }
}

async function run(setting: Setting): Promise<Outcome> {
  const rounds = setting.cycles ?? 2;
  const found: string[] = [];
  let worst = 0;
  const { faults, history } = await weather(setting, {
    clients: 3,
    async torment(storm) {
      for (let round = 0; round < rounds; round++) {
        storm.endpoint.requests.length = 0;
        const { crashes, status, log } = await poisoned(storm);
        worst = Math.max(worst, crashes);
        if (status !== "incomplete" || crashes > 4) found.push(`after ${crashes} crashes it is ${status}`);
        if (!log.includes("crashes in a row")) found.push("the server does not say why it was ended");
      }
    },
  });
  return {
    faults: [...faults, ...found],
    figures: [
      { what: "poisoned responses", value: rounds },
      { what: "crashes until one was ended, at most", value: worst, goal: "≤ 4", ok: worst <= 4 },
      none("lost, doubled or torn of everybody else's", faults.length),
      { what: "responses acknowledged meanwhile", value: history.acknowledged.size },
    ],
  };
}

export const poison: Part = { name: "poison", about: "a response that brings the server down", rows: ["P13"], run };
