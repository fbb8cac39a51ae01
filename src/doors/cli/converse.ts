/** A conversation line by line (parity N2). Invariant: every turn is a response of the tree like any other. */
import { createInterface, type Interface } from "node:readline/promises";
import { toRotundaError } from "../../types/error.ts";
import { shortId } from "../../util/ids.ts";
import { visible } from "../../util/text.ts";
import { type CommandContext, interruptible } from "./context.ts";
import { outline } from "./outline.ts";
import { type ChatFlags, requestFor, turnOptions } from "./request.ts";
import { followTurn, startTurn } from "./turn.ts";

interface Talk {
  flags: ChatFlags;
  /** The response to go on from. */
  last: string | undefined;
}

export async function converse(context: CommandContext, flags: ChatFlags): Promise<number> {
  const app = await context.app(flags);
  const { err } = context.streams;
  if (app.config.servers.length > 0) err("Connected to MCP servers. ");
  err("Type /quit to exit, /clear to reset history, /model NAME to switch, /tree to see the conversation, ");
  err("/compact to sum it up, /help.\n");
  const talk: Talk = { flags, last: undefined };
  for (;;) {
    const line = await readLine("you> ");
    if (line === undefined || line.trim() === "/quit") {
      err("Goodbye.\n");
      return 0;
    }
    if (line.trim() === "") continue;
    try {
      if (line.startsWith("/")) await command(context, talk, line.trim());
      else await turn(context, talk, line);
    } catch (error) {
      err(`\n[error] ${visible(toRotundaError(error).message)}\n`);
    }
  }
}

/** Undefined at the end of input. Ctrl-C clears the line (parity F1). */
async function readLine(prompt: string): Promise<string | undefined> {
  const lines: Interface = createInterface({ input: process.stdin, output: process.stderr, historySize: 200 });
  try {
    const closed = new Promise<undefined>((resolve) => lines.once("close", () => resolve(undefined)));
    lines.on("SIGINT", () => lines.write(null, { ctrl: true, name: "u" }));
    return await Promise.race([lines.question(prompt), closed]);
  } finally {
    lines.close();
  }
}

async function command(context: CommandContext, talk: Talk, line: string): Promise<void> {
  const { err } = context.streams;
  const [name, ...rest] = line.split(/\s+/);
  if (name === "/clear") {
    talk.last = undefined;
    talk.flags = withoutStart(talk.flags);
    err("History cleared.\n");
  } else if (name === "/model") {
    const app = await context.app();
    const models = await app.models();
    const [wanted] = rest;
    if (wanted !== undefined && !models.some((model) => model.id === wanted)) {
      err(`There is no model ${visible(wanted)}.\n`);
    } else if (wanted !== undefined) talk.flags = { ...talk.flags, model: wanted };
    const current = talk.flags.model ?? models.find((model) => model.default)?.id;
    for (const model of models) err(`${model.id === current ? "*" : " "} ${visible(model.id)}\n`);
  } else if (name === "/compact") {
    if (talk.last === undefined) err("Nothing has been said yet.\n");
    else await compactTalk(context, talk, talk.last, rest.join(" "));
  } else if (name === "/tree") {
    if (talk.last === undefined) err("Nothing has been said yet.\n");
    else err(await outline(await context.app(), talk.last));
  } else {
    if (name !== "/help") err(`Unknown command ${visible(name ?? "")}. `);
    err("There are: /quit ends, /clear begins anew, /model [NAME] shows or switches, /tree shows the conversation, ");
    err("/compact [WHAT TO KEEP] sums it up.\n");
  }
}

/** Everything so far becomes a summary, from which the conversation goes on. */
async function compactTalk(context: CommandContext, talk: Talk, last: string, focus: string): Promise<void> {
  const app = await context.app();
  const interrupt = interruptible(app);
  const { err, errStyle } = context.streams;
  try {
    const { compactFrom } = await import("./compact.ts");
    const flags = {
      ...(focus !== "" && { focus }),
      ...(talk.flags.model !== undefined && { model: talk.flags.model }),
    };
    const node = await compactFrom(context, app, { previousResponseId: last }, flags, interrupt.signal);
    if (node.status !== "completed") {
      err(`[error] ${visible(node.error?.message ?? node.status)}\n`);
      return;
    }
    talk.last = node.id;
    const { output } = await app.engine.get(node.id);
    const item = output.find((one) => one.type === "compaction");
    err(item?.type === "compaction" ? `${errStyle.dim(visible(item.summary))}\n` : "There is nothing to sum up.\n");
  } finally {
    interrupt.dispose();
  }
}

/** What only the first turn goes on from. */
function withoutStart(flags: ChatFlags): ChatFlags {
  const { from: _from, continue: _continue, conversation: _conversation, ...rest } = flags;
  return rest;
}

async function turn(context: CommandContext, talk: Talk, line: string): Promise<void> {
  const app = await context.app();
  const interrupt = interruptible(app);
  try {
    const flags = talk.last === undefined ? talk.flags : { ...withoutStart(talk.flags), from: talk.last };
    const started = await startTurn(app, await requestFor(context, flags, line));
    context.streams.err("\nassistant> \n");
    const { node, exitCode } = await followTurn(app, started, turnOptions(context, talk.flags, interrupt));
    if (exitCode === 143) process.exit(143);
    if (node.status === "failed" && node.error) context.streams.err(`[error] ${visible(node.error.message)}\n`);
    if (node.endedAt !== null && node.status !== "failed") talk.last = node.id;
    else if (node.status === "waiting" && !node.error)
      context.streams.err(`It waits: rotunda approvals; then rotunda resume ${shortId(node.id)}\n`);
  } finally {
    interrupt.dispose();
  }
}
