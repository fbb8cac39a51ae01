/** Servers and workers as processes of their own on one Postgres database, each with a state directory of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { later, temporaryFolder } from "../support.ts";
import { sharedPostgres } from "../support-postgres.ts";

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));

export interface Member {
  child: ChildProcess;
  /** Of a server. */
  url: string;
  log(): string;
  /** Resolves when it has gone. */
  end(signal: NodeJS.Signals): Promise<number | string>;
}

export interface Cluster {
  workspace: string;
  database: string;
  servers: Member[];
  workers: Member[];
  server(): Promise<Member>;
  worker(args?: string[]): Promise<Member>;
  /** A request to one of the servers. */
  fetch(server: number, path: string, json?: unknown): Promise<Response>;
  respond(server: number, json: object): Promise<{ id: string; status: string }>;
}

export interface ClusterOptions {
  servers: number;
  workers: number;
  upstream: string;
  config?: object;
  /** Arguments of each server. Default: it runs nothing itself. */
  serve?: string[];
  /** Each process believes to be on a machine of its own. */
  machines?: boolean;
}

let clusters = 0;

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const postgres = await sharedPostgres();
  const folder = temporaryFolder();
  const workspace = join(folder, "workspace");
  mkdirSync(workspace);
  const model = { id: "test-model", baseUrl: options.upstream, apiKey: "sk-test-0123456789" };
  writeFileSync(join(folder, "rotunda.yaml"), JSON.stringify({ models: [model], ...options.config }));
  const schema = `cluster_${process.pid}_${++clusters}`;
  const database = `${postgres.url}&schema=${schema}`;
  let members = 0;
  const start = async (args: string[], line: RegExp): Promise<Member> => {
    const home = join(folder, `machine${++members}`);
    mkdirSync(home);
    const env = {
      PATH: process.env.PATH,
      HOME: home,
      ROTUNDA_HOME: join(home, "state"),
      ROTUNDA_CONFIG: join(folder, "rotunda.yaml"),
      ROTUNDA_DATABASE: database,
      NO_COLOR: "1",
    };
    const apart = options.machines ? ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] : [];
    const [command = "", ...rest] = [...apart, process.execPath, program, ...args];
    const child = spawn(command, rest, { cwd: workspace, env, stdio: ["ignore", "pipe", "pipe"] });
    later(() => void child.kill("SIGKILL"));
    let errors = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
      if (process.env.ROTUNDA_TEST_VERBOSE) process.stderr.write(`${args[0]} ${child.pid}: ${text}`);
    });
    const found = await said(child, line, () => errors);
    return {
      child,
      url: found,
      log: () => errors,
      async end(signal) {
        if (child.exitCode !== null || child.signalCode !== null) return child.exitCode ?? "";
        const exit = once(child, "exit");
        child.kill(signal);
        const [code, by] = (await exit) as [number | null, string | null];
        return code ?? by ?? "";
      },
    };
  };
  const cluster: Cluster = {
    workspace,
    database,
    servers: [],
    workers: [],
    async server() {
      const args = ["serve", "--port", "0", "--quiet", "--auth", "none", ...(options.serve ?? ["--concurrency", "0"])];
      const member = await start(args, /Rotunda listening on (http:\S+)\n/);
      this.servers.push(member);
      return member;
    },
    async worker(args = []) {
      const member = await start(["worker", "--concurrency", "16", ...args], /Rotunda worker (runs)/);
      this.workers.push(member);
      return member;
    },
    fetch(server, path, json) {
      const { url = "" } = this.servers[server % this.servers.length] ?? {};
      const body = json === undefined ? {} : { method: "POST", body: JSON.stringify(json) };
      return fetch(url + path, { ...body, headers: { "content-type": "application/json" } });
    },
    async respond(server, json) {
      const answer = await this.fetch(server, "/v1/responses", { model: "test-model", ...json });
      const text = await answer.text();
      if (answer.status !== 200) throw new Error(`${answer.status}: ${text}`);
      return JSON.parse(text) as { id: string; status: string };
    },
  };
  await Promise.all([
    ...Array.from({ length: options.servers }, () => cluster.server()),
    ...Array.from({ length: options.workers }, () => cluster.worker()),
  ]);
  return cluster;
}

function said(child: ChildProcess, line: RegExp, errors: () => string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout?.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      const [, found] = line.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", (code) => reject(new Error(`the process exited with ${code}: ${errors()}`)));
  });
}

export interface ClusterEvent {
  type: string;
  sequence_number: number;
  [key: string]: unknown;
}

/** Reads a stream to its end over both servers: whatever cuts it, it goes on from the last event at the other one. */
export async function readStream(cluster: Cluster, id: string, seconds = 60): Promise<ClusterEvent[]> {
  const events: ClusterEvent[] = [];
  const until = performance.now() + seconds * 1_000;
  for (let turn = 0; performance.now() < until; turn++) {
    const after = events.at(-1)?.sequence_number;
    const path = `/v1/responses/${id}?stream=true${after === undefined ? "" : `&starting_after=${after}`}`;
    try {
      const answer = await cluster.fetch(turn, path);
      let text = "";
      for await (const piece of answer.body ?? []) {
        text += Buffer.from(piece).toString("utf8");
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
          const [, data] = /^data: (.*)$/m.exec(text.slice(0, end)) ?? [];
          text = text.slice(end + 2);
          if (data !== undefined && data !== "[DONE]") events.push(JSON.parse(data) as ClusterEvent);
        }
      }
    } catch {
      // Its server has gone: the other one has the rest.
    }
    const last = events.at(-1)?.type ?? "";
    if (/^response\.(completed|failed|incomplete)$/.test(last)) return events;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`the stream of ${id} did not end: ${events.length} events, the last is ${events.at(-1)?.type}`);
}
