/** `rotunda serve` as a process of its own, to be stopped, killed and started again; and streams read over it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { later } from "../support.ts";

export interface Server {
  url: string;
  token: string;
  pid: number;
  /** Resolves with the exit code, or the signal's name. */
  stop(signal: NodeJS.Signals): Promise<number | string>;
  log(): string;
}

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));

/** Starts the built program in a folder; a second start finds what the first one left. */
export async function startServer(folder: string, upstream: string, more: object = {}): Promise<Server> {
  const workspace = join(folder, "workspace");
  const state = join(folder, "state");
  mkdirSync(workspace, { recursive: true });
  const model = { id: "test-model", baseUrl: upstream, apiKey: "sk-test-0123456789" };
  writeFileSync(join(folder, "rotunda.yaml"), JSON.stringify({ models: [model], ...more }));
  const { PATH } = process.env;
  const env = { PATH, HOME: folder, ROTUNDA_HOME: state, ROTUNDA_CONFIG: join(folder, "rotunda.yaml"), NO_COLOR: "1" };
  const child = spawn(process.execPath, [program, "serve", "--port", "0", "--quiet"], {
    cwd: workspace,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  later(() => void child.kill("SIGKILL"));
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const url = await addressOf(child, () => errors);
  const token = readFileSync(join(state, "token"), "utf8").trim();
  return {
    url,
    token,
    pid: child.pid ?? 0,
    log: () => errors,
    async stop(signal) {
      const exit = once(child, "exit");
      child.kill(signal);
      const [code, by] = (await exit) as [number | null, string | null];
      return code ?? by ?? "";
    },
  };
}

function addressOf(child: ChildProcess, errors: () => string): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const [, url] = /Rotunda listening on (http:\S+)\n/.exec(said) ?? [];
      if (url) resolve(url);
    });
    child.once("exit", (code) => reject(new Error(`rotunda serve exited with ${code}: ${errors()}`)));
  });
}

export interface WireEvent {
  type: string;
  sequence_number: number;
  [key: string]: unknown;
}

export interface Reading {
  events: WireEvent[];
  /** `[DONE]` came. */
  done: boolean;
  /** The connection ended or broke. */
  ended: boolean;
}

/**
 * Reads a response's stream over a connection of its own, and cuts it after `atMost` events: hard, as a lost network
 * does. Resolves when it was cut, has ended, or broke.
 */
export function readStream(
  server: Pick<Server, "url" | "token">,
  path: string,
  atMost = Number.POSITIVE_INFINITY,
  seen: (event: WireEvent) => void = () => undefined,
): Promise<Reading> {
  return new Promise((resolve) => {
    const reading: Reading = { events: [], done: false, ended: false };
    const headers = { authorization: `Bearer ${server.token}` };
    const outgoing = request(`${server.url}${path}`, { headers, agent: false }, (response) => {
      let rest = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        rest += text;
        for (let end = rest.indexOf("\n\n"); end !== -1; end = rest.indexOf("\n\n")) {
          const block = rest.slice(0, end);
          rest = rest.slice(end + 2);
          const data = block.split("\n").find((line) => line.startsWith("data: "));
          if (data === undefined) continue;
          if (data === "data: [DONE]") reading.done = true;
          else {
            const event = JSON.parse(data.slice(6)) as WireEvent;
            reading.events.push(event);
            seen(event);
          }
          if (reading.events.length >= atMost) {
            outgoing.destroy();
            resolve(reading);
            return;
          }
        }
      });
      const finish = () => {
        reading.ended = true;
        resolve(reading);
      };
      response.on("end", finish).on("error", finish).on("close", finish);
    });
    outgoing.on("error", () => {
      reading.ended = true;
      resolve(reading);
    });
    outgoing.end();
  });
}

/** Starts a background response; gives its id. */
export async function startBackground(server: Server, input: string): Promise<string> {
  const answer = await fetch(`${server.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.token}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test-model", input, background: true }),
  });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  return ((await answer.json()) as { id: string }).id;
}
