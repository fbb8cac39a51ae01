/**
 * Part `commits`: eight reference turns, killed before and after every commit, and gone on with by another process.
 *
 * Invariant: whatever was told is in the log, word for word; every turn comes to its end; no effect happens twice; what
 * is reported as done was done.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSqliteStore } from "../src/store/sqlite.ts";
import { isEnd } from "../src/types/event.ts";
import type { Build } from "./build.ts";
import { answerTo, question, startEndpoint, type Wish } from "./endpoint.ts";
import { none, type Outcome, type Part, type Setting, together } from "./part.ts";
import type { TurnWork } from "./programs/turn.ts";
import { ended, linesOf, makePlace, type Place } from "./server.ts";

interface Reference {
  name: string;
  input: string;
  /** What it must say at last. */
  answer: string;
  model?: string;
  http?: boolean;
  /** Needs the MCP server of the place. */
  counter?: boolean;
  /** How often each effect must have happened where nothing is killed. */
  effects: number;
  children?: number;
}

function ask(wish: Wish): { input: string; answer: string } {
  return { input: question(wish), answer: answerTo(wish) };
}

const effect = "echo done >> effects.log";

const references: readonly Reference[] = [
  { name: "plain", ...ask({ words: 8, delay: 30 }), effects: 0 },
  {
    name: "read tool",
    ...ask({
      calls: [
        ["read", { files: [{ file_path: "a.txt" }] }],
        ["glob", { pattern: "*.txt" }],
      ],
    }),
    effects: 0,
  },
  {
    name: "write tool",
    ...ask({
      calls: [
        ["write", { file_path: "b.txt", content: "b" }],
        ["bash", { command: effect }],
      ],
    }),
    effects: 1,
  },
  { name: "MCP tool", ...ask({ calls: [["counter__append", { line: "done" }]] }), counter: true, effects: 1 },
  {
    name: "approval wait",
    ...ask({ calls: [["counter__append_asked", { line: "done" }]] }),
    counter: true,
    effects: 1,
  },
  {
    name: "sub-agent",
    ...ask({
      calls: [
        [
          "task",
          { agent_type: "execute", description: "work", task: question({ calls: [["bash", { command: effect }]] }) },
        ],
      ],
    }),
    effects: 1,
    children: 1,
  },
  {
    name: "background",
    ...ask({ calls: [["bash", { command: effect }]], words: 8, delay: 30 }),
    http: true,
    effects: 1,
  },
  { name: "CLI agent", input: `[run ${effect}]`, answer: "heard:", model: "claude-code", effects: 1 },
];

interface Told {
  acknowledged?: string;
  id?: string;
  event?: string;
  commits?: number;
}

function told(path: string): Told[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Told);
}

const agent = fileURLToPath(new URL("../test/fixtures/agents/claude.ts", import.meta.url));

class Bench {
  readonly #build: Build;
  readonly #endpoint: string;
  readonly #reference: Reference;

  constructor(build: Build, endpoint: string, reference: Reference) {
    this.#build = build;
    this.#endpoint = endpoint;
    this.#reference = reference;
  }

  #place(): Place {
    const agents = { "claude-code": { command: process.execPath, args: ["--no-warnings", agent] } };
    const place = makePlace({
      build: this.#build,
      endpoint: this.#endpoint,
      config: this.#reference.counter ? {} : { mcpServers: {}, ...(this.#reference.model && { agents }) },
    });
    return place;
  }

  async #turn(place: Place, more: Partial<TurnWork>): Promise<{ signal: string | null; said: string }> {
    const { input, model = "test-model", http = false } = this.#reference;
    const work: TurnWork = {
      input,
      model,
      http,
      observed: join(place.folder, "observed.jsonl"),
      killAt: 0,
      moment: "before",
      resume: false,
      ...more,
    };
    const child = spawn(process.execPath, [this.#build.program("turn"), JSON.stringify(work)], {
      cwd: place.workspace,
      env: place.environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    return ended(child, 60_000);
  }

  /** How many commits the turn has when nobody disturbs it. */
  async unharmed(faults: string[]): Promise<number> {
    const place = this.#place();
    const { said } = await this.#turn(place, {});
    const lines = told(join(place.folder, "observed.jsonl"));
    const commits = lines.at(-1)?.commits ?? 0;
    if (commits === 0) faults.push(`${this.#reference.name}: did not run: ${said.slice(-1_000)}`);
    else await this.#judge(place, lines, `${this.#reference.name}, unharmed`, faults, true);
    place.remove();
    return commits;
  }

  /** False: it had ended before. */
  async kill(commit: number, moment: "before" | "after", faults: string[]): Promise<boolean> {
    const place = this.#place();
    const where = `${this.#reference.name}, ${moment} commit ${commit}`;
    // Half of them with every delta in the tail of the log, as when many streams run at once.
    const crowd = (commit % 2 === 0) === (moment === "before") ? { crowd: 0 } : {};
    const first = await this.#turn(place, { killAt: commit, moment, ...crowd });
    if (first.signal !== "SIGKILL") {
      if (told(join(place.folder, "observed.jsonl")).at(-1)?.commits === undefined)
        faults.push(`${where}: ended by itself: ${first.said.slice(-500)}`);
      place.remove();
      return false;
    }
    const before = told(join(place.folder, "observed.jsonl"));
    const observed = join(place.folder, "observed-after.jsonl");
    const second = await this.#turn(place, { resume: true, observed, ...crowd });
    if (second.signal !== null || told(observed).at(-1)?.commits === undefined) {
      faults.push(`${where}: nobody could go on: ${second.signal} ${second.said.slice(-1_000)}`);
    }
    this.#compare(before, told(observed), where, faults);
    await this.#judge(place, before, where, faults, false);
    place.remove();
    return true;
  }

  /** What was told before the crash is told again afterwards, event for event. */
  #compare(before: readonly Told[], after: readonly Told[], where: string, faults: string[]): void {
    const seen = before.filter(({ event }) => event !== undefined);
    const again = after.filter(({ id, event }) => event !== undefined && id === seen[0]?.id);
    const differs = seen.findIndex(({ event }, index) => again[index]?.event !== event);
    if (differs !== -1) faults.push(`${where}: ${seen[differs]?.event} became ${again[differs]?.event}`);
  }

  async #judge(place: Place, lines: readonly Told[], where: string, faults: string[], whole: boolean): Promise<void> {
    const { answer, effects, children = 0 } = this.#reference;
    const fault = (text: string) => void faults.push(`${where}: ${text}`);
    const store = await openSqliteStore(place.database);
    try {
      const nodes = await store.list({ limit: 100 });
      const acknowledged = lines.find((line) => line.acknowledged)?.acknowledged;
      if (acknowledged && !nodes.some(({ id }) => id === acknowledged)) fault(`${acknowledged} is lost`);
      const happened = ["effects.log", "mcp-effects.log"].flatMap((name) =>
        linesOf(join(place.workspace, name)),
      ).length;
      if (happened > effects || (whole && happened !== effects)) fault(`${happened} effects`);
      let reported = 0;
      for (const { id, status, caller, error } of nodes) {
        if (status !== "completed") fault(`${id} is ${status} ${error?.message ?? ""}`);
        const events = await store.events(id, -1, 100_000);
        if (events.some((event, index) => event.sequence_number !== index)) fault(`${id} has a gap`);
        if (events.filter(isEnd).length !== 1) fault(`${id} has ${events.filter(isEnd).length} ends`);
        const items =
          (await store.get(id))?.entries.filter(({ side }) => side === "output").map(({ item }) => item) ?? [];
        const calls = items.filter((item) => item.type === "mcp_call");
        reported += calls.filter(
          (item) => item.status === "completed" && /done/.test(item.arguments) && item.name !== "task",
        ).length;
        const last = items.findLast((item) => item.type === "message");
        const text = last?.content.map((part) => ("text" in part ? part.text : "")).join("") ?? "";
        if (caller === null && !text.startsWith(answer)) fault(`${id} says ${JSON.stringify(text)}`);
      }
      if (reported > happened) fault(`${reported} effects are reported, ${happened} happened`);
      const subAgents = nodes.filter(({ caller }) => caller !== null).length;
      if (subAgents > children) fault(`${subAgents} sub-agents`);
    } catch (error) {
      fault(error instanceof Error ? error.message : String(error));
    } finally {
      await store.close();
    }
  }
}

/** Only these turns. With `cycles`: only so many points of each, spread evenly. */
export async function runCommits(
  { build, cycles, tell, first = false }: Setting,
  names: readonly string[] = references.map(({ name }) => name),
): Promise<Outcome> {
  const endpoint = await startEndpoint();
  const faults: string[] = [];
  const figures: Outcome["figures"] = [];
  let all = 0;
  try {
    for (const reference of references.filter(({ name }) => names.includes(name))) {
      if (first && faults.length > 0) break;
      const bench = new Bench(build, endpoint.url, reference);
      const commits = await bench.unharmed(faults);
      const points = Array.from({ length: commits }, (_, index) => index + 1).flatMap((commit) => [
        { commit, moment: "before" as const },
        { commit, moment: "after" as const },
      ]);
      const chosen =
        cycles === undefined ? points : points.filter((_, at) => at % Math.ceil(points.length / cycles) === 0);
      let killed = 0;
      await together(chosen, 2, async ({ commit, moment }) => {
        if (first && faults.length > 0) return;
        if (await bench.kill(commit, moment, faults)) killed++;
      });
      tell(`${reference.name}: ${commits} commits, killed ${killed} times`);
      // The number of commits varies with timing: what comes close together shares one. A run that has ended before the
      // point shows nothing, so at least half of them must have been met.
      if (!first && killed < chosen.length * 0.5)
        faults.push(`${reference.name}: only ${killed} of ${chosen.length} points were met`);
      figures.push({ what: `${reference.name}: commits, points killed at`, value: `${commits}, ${killed}` });
      all += killed;
    }
  } finally {
    await endpoint.close();
  }
  return {
    faults,
    figures: [
      ...figures,
      { what: "points in all", value: all },
      none("lost, doubled, torn or not ended", faults.length),
    ],
  };
}

export const commits: Part = {
  name: "commits",
  about: "eight kinds of turn, killed before and after every commit",
  rows: ["P1"],
  run: runCommits,
};
