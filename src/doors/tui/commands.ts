/**
 * The commands of the terminal, `/name argument`.
 *
 * Invariant: a command is an entry of this table and nothing else: help, completion and documentation are made of it.
 */
import type { SelectItem } from "@earendil-works/pi-tui";
import type { App } from "../../types/app.ts";
import { LOCAL, type ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { rootOf } from "../../util/outermost.ts";
import { counted } from "../../util/text.ts";
import { cleanLine } from "./clean.ts";
import { textOf } from "./reader.ts";
import type { Session } from "./session.ts";
import { costText, countText } from "./style.ts";
import { isLeft } from "./turn.ts";

export interface Command {
  name: string;
  /** What may follow it, for the help. */
  argument?: string;
  description: string;
  /** For completion. */
  values?(): Promise<string[]>;
  run(argument: string): Promise<void> | void;
}

/** What a command may do to the screen. */
export interface Stage {
  session: Session;
  note(text: string, kind?: "info" | "warn" | "error" | "plain"): void;
  /** Names and what there is to say of each. */
  list(rows: readonly (readonly [string, string])[], end?: string): void;
  /** Undefined: nothing was picked. */
  pick(title: string, items: readonly SelectItem[], chosen?: string): Promise<string | undefined>;
  tree(from: string | undefined): Promise<void>;
  /** Names and what there is to say of each, of commands and of keys. */
  help(commands: readonly (readonly [string, string])[], keys: readonly (readonly [string, string])[]): Promise<void>;
  /** Puts a text into the editor, before what stands there. */
  write(text: string): void;
  quit(): void;
  exportTo(responseId: string, file: string): Promise<string>;
}

/** True, and it says so, where a turn runs or is about to. */
function isBusy({ session, note }: Stage): boolean {
  if (session.busy) note("A turn is running: Ctrl-C ends it.", "warn");
  return session.busy;
}

export function commandsFor(stage: () => Stage): Command[] {
  const app = () => stage().session.app;
  const said = (need: (head: string) => Promise<void> | void) => () => {
    const { head } = stage().session;
    return head === undefined ? stage().note("Nothing has been said yet.") : need(head);
  };
  return [
    {
      name: "model",
      argument: "[ID]",
      description: "Who answers from now on",
      values: async () => (await app().models()).map(({ id }) => id),
      run: (argument) => chooseModel(stage(), argument),
    },
    {
      name: "agent",
      argument: "[PROFILE]",
      description: "The profile that answers from now on",
      values: async () =>
        app()
          .profiles()
          .map(({ name }) => name),
      run: (argument) => chooseProfile(stage(), argument),
    },
    { name: "tools", description: "What the model can call", run: () => showTools(stage()) },
    { name: "hub", description: "The MCP servers and their state", run: () => showHub(stage()) },
    {
      name: "tree",
      description: "The picture: walk, open, compare, go on from any answer",
      run: () => stage().tree(stage().session.running?.id ?? stage().session.head),
    },
    {
      name: "branch",
      argument: "[ID]",
      description: "Go on from another answer; without one, pick it in the tree",
      run: async (argument) => {
        const { session } = stage();
        if (argument === "") return stage().tree(session.head);
        if (!isBusy(stage())) await session.open(await app().engine.resolveId(argument, "response"));
      },
    },
    {
      name: "undo",
      description: "Back before the last turn, with its text in the editor",
      run: said((head) => undo(stage(), head)),
    },
    {
      name: "clear",
      description: "Begin anew; what was said stays in the tree",
      run: () => {
        if (isBusy(stage())) return;
        stage().session.clear();
        stage().note("History cleared.");
      },
    },
    {
      name: "compact",
      argument: "[WHAT TO KEEP]",
      description: "Sum up what was said so far, and go on from the summary",
      run: (argument) => compact(stage(), argument),
    },
    { name: "cost", description: "Tokens and money of this tree", run: said((head) => showCost(stage(), head)) },
    {
      name: "approve",
      description: "What waits for a person, in all conversations",
      run: () => showApprovals(stage()),
    },
    {
      name: "resume",
      argument: "[ID]",
      description: "What runs, waits or was left behind, and earlier conversations",
      run: (argument) => resume(stage(), argument),
    },
    {
      name: "export",
      argument: "[FILE]",
      description: "Write this conversation to a file, which rotunda import reads",
      run: (argument) =>
        said(async (head) => {
          const file = argument === "" ? `rotunda-${shortId(head)}.jsonl` : argument;
          stage().note(await stage().exportTo(head, file));
        })(),
    },
    { name: "help", description: "Commands and keys", run: () => stage().help(commandsFor(stage).map(rowOf), keys) },
    { name: "quit", description: "Leave; what runs in a server goes on", run: () => stage().quit() },
  ];
}

async function chooseModel(stage: Stage, argument: string): Promise<void> {
  const { session } = stage;
  const models = await session.app.models();
  const current = session.model === "" ? models.find((one) => one.default)?.id : session.model;
  const items = models.map(({ id, model, origin, baseUrl }) => ({
    value: id,
    label: id,
    description: facts(id === current ? NOW : "", model === id ? "" : model, origin, baseUrl ?? ""),
  }));
  const wanted = argument === "" ? await stage.pick("Model", items, current) : argument;
  if (wanted === undefined) return;
  const names = models.map(({ id }) => id);
  if (!names.includes(wanted)) return stage.note(`There is no model ${wanted}. ${thereIs(names)}`, "warn");
  session.choice = { ...session.choice, model: wanted };
  session.model = wanted;
  stage.note(`${wanted} answers from now on.`);
}

/** Who answers so far, in a list of those who could. */
const NOW = "answers now";

function facts(...texts: readonly string[]): string {
  return texts.filter((text) => text !== "").join(" · ");
}

function thereIs(names: readonly string[]): string {
  const more = names.length > 20 ? `, and ${names.length - 20} more` : "";
  return names.length === 0 ? "There is none." : `There is: ${names.slice(0, 20).join(", ")}${more}.`;
}

async function chooseProfile(stage: Stage, argument: string): Promise<void> {
  const { session } = stage;
  const profiles = session.app.profiles();
  const items = profiles.map(({ name, description }) => ({
    value: name,
    label: name,
    description: facts(name === session.profile ? NOW : "", description),
  }));
  const wanted = argument === "" ? await stage.pick("Agent", items, session.profile) : argument;
  if (wanted === undefined) return;
  const names = profiles.map(({ name }) => name);
  if (!names.includes(wanted)) return stage.note(`There is no profile ${wanted}. ${thereIs(names)}`, "warn");
  session.choice = { ...session.choice, profile: wanted };
  session.profile = wanted;
  stage.note(`${wanted} answers from now on.`);
}

async function showTools(stage: Stage): Promise<void> {
  const tools = await stage.session.app.engine.tools(stage.session.profile);
  const rows = tools.map(({ name, description }) => [name, firstSentence(description)] as const);
  stage.list(rows, `${tools.length} tools available.`);
}

async function showHub(stage: Stage): Promise<void> {
  const servers = (await stage.session.app.hub())?.servers() ?? [];
  if (servers.length === 0) return stage.note("No MCP server is configured: mcpServers in rotunda.yaml.");
  const rows = servers.map(({ name, state, transport, toolCount, error }) => {
    const tools = toolCount === 0 ? "" : ` · ${counted(toolCount, "tool")}`;
    const why = error === undefined ? "" : ` · ${cleanLine(error, 300)}`;
    return [name, `${state.replaceAll("_", " ")} · ${transport}${tools}${why}`] as const;
  });
  stage.list(rows);
}

async function undo(stage: Stage, head: string): Promise<void> {
  const { session } = stage;
  if (isBusy(stage)) return;
  const { input, previousResponseId } = await session.app.engine.get(head);
  if (previousResponseId) await session.open(previousResponseId);
  else session.clear();
  stage.write(
    input.flatMap((item) => (item.type === "message" && item.role === "user" ? [textOf(item)] : [])).join("\n"),
  );
  stage.note(`Back before ${shortId(head)}, which stays in the tree. What you say now is a branch.`);
}

async function compact(stage: Stage, focus: string): Promise<void> {
  const { session } = stage;
  if (session.head === undefined) return stage.note("Nothing has been said yet.");
  if (isBusy(stage)) return;
  const { app } = session;
  await session.elsewhere.catchUp(true);
  const { head } = session;
  if (isBusy(stage) || head === undefined) return;
  const node = await app.store.node(head);
  await session.run({
    input: [],
    previousResponseId: head,
    workspace: node?.workspace ?? app.workspace,
    door: "tui",
    settings: { compact: focus === "" ? {} : { focus } },
    ...(node && { profile: node.profile, model: session.choice.model ?? node.model }),
  });
}

async function showCost(stage: Stage, head: string): Promise<void> {
  const { store } = stage.session.app;
  const lines: string[] = [];
  for (let id: string | null = head; id !== null && lines.length < 20; ) {
    const node: ResponseNode | undefined = await store.node(id);
    if (!node) break;
    const { input_tokens: sent, output_tokens: received, cost } = node.usage;
    lines.unshift(
      `${shortId(node.id)}  ${node.model}  ${countText(sent)} in  ${countText(received)} out  ${costText(cost)}`.trimEnd(),
    );
    id = node.previousResponseId;
  }
  const all = await store.usedBelow(await rootOf(stage.session.app, head));
  const money = costText(all.cost);
  const total = `The whole tree: ${counted(all.responses, "answer")}, ${countText(all.tokens)} tokens${money === "" ? "" : `, ${money}`}`;
  stage.note([...lines, total].join("\n"), "plain");
}

async function showApprovals(stage: Stage): Promise<void> {
  if ((await stage.session.asks.show()) === 0) stage.note("Nothing waits for a person.");
}

/** What runs first, then what waits or was left, then this directory's conversations. */
async function resume(stage: Stage, argument: string): Promise<void> {
  const { session } = stage;
  const { app } = session;
  if (isBusy(stage)) return;
  if (argument !== "") {
    await session.open(await app.engine.resolveId(argument, "response"));
    return;
  }
  const open = await app.store.list({ status: ["in_progress", "waiting", "queued"], limit: 50 });
  const found: { node: ResponseNode; state: string }[] = [];
  for (const node of open) if (!node.caller) found.push({ node, state: await stateOf(app, node) });
  for (const { head, title } of await app.store.conversations({ limit: 50, owner: LOCAL, workspace: app.workspace })) {
    if (head === null || found.some(({ node }) => node.id === head)) continue;
    const node = await app.store.node(head);
    if (node) found.push({ node, state: cleanLine(title, 60) });
  }
  if (found.length === 0) return stage.note("There is nothing to go on with in this directory.");
  const said = await (await app.store.browsing()).excerpts(found.map(({ node }) => node.id));
  const items = found.map(({ node, state }) => itemOf(node, said.get(node.id)?.prompt ?? "", state));
  const wanted = await stage.pick("Go on with", items);
  if (wanted !== undefined) await session.open(wanted);
}

async function stateOf(app: App, node: ResponseNode): Promise<string> {
  if (await isLeft(app, node)) return "left in the middle";
  return node.status === "in_progress" ? "runs" : node.status;
}

function itemOf(node: ResponseNode, prompt: string, state: string): SelectItem {
  const when = new Date(node.createdAt).toISOString().slice(0, 16).replace("T", " ");
  const label = cleanLine(prompt, 60) || "(no text)";
  return {
    value: node.id,
    label,
    description: facts(shortId(node.id), state === label ? "" : state, when, node.model),
  };
}

export const keys: readonly (readonly [string, string])[] = [
  ["Enter", "send; while a turn runs: steer it"],
  ["Alt+Enter", "a new line; while a turn runs: queue it as the next turn"],
  ["Shift+Enter, Ctrl+J", "a new line"],
  ["Ctrl+C", "close, cancel, or empty the editor; twice: leave"],
  ["Esc", "close what is open, else cancel the turn"],
  ["Tab", "complete; in an empty editor: walk through calls and reasoning"],
  ["Ctrl+O", "open or close all calls and reasoning"],
  ["Page Up, Page Down, wheel", "scroll; End follows again"],
  ["Ctrl+V", "attach the image of the clipboard"],
  ["Alt+Up", "take the last queued message back into the editor"],
  ["↑ ↓", "in an empty editor: what you said before"],
  ["@", "a file of the workspace, by any part of its name"],
  ["!command", "run it in the sandbox; its output goes along with the next message"],
];

function rowOf({ name, argument, description }: Command): readonly [string, string] {
  return [`/${name}${argument ? ` ${argument}` : ""}`, description];
}

function firstSentence(text: string): string {
  const line = cleanLine(text, 300);
  return /^.{20,}?[.](?= )/.exec(line)?.[0] ?? line;
}
