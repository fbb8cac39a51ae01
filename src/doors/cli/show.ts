/**
 * `rotunda show`: a response, item by item.
 *
 * Invariant: it only reads. What was told of an answer and never ended is shown too, marked as what it is.
 */
import type { App } from "../../types/app.ts";
import type { Item } from "../../types/item.ts";
import type { FullResponse, ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { headOf, named } from "./named.ts";
import { isInterrupted, usedText } from "./outline.ts";

const PAGE = 5_000;

/** Of a conversation, by name or id, its last answer. */
async function found(app: App, word: string): Promise<FullResponse> {
  const one = await named(app, word);
  return app.engine.get("response" in one ? one.response : headOf(one.conversation));
}

export async function show(
  context: CommandContext,
  id: string,
  flags: { json?: boolean; full?: boolean },
): Promise<number> {
  const app = await context.app();
  const response = await found(app, id);
  const interrupted = await isInterrupted(app, response);
  const open = response.endedAt === null ? await openItems(app, response, interrupted) : [];
  const { out, outStyle } = context.streams;
  if (flags.json) {
    const output = [...response.output, ...open];
    out(`${JSON.stringify({ ...response, output, ...(interrupted && { interrupted }) })}\n`);
    return 0;
  }
  out(`${outStyle.bold(response.id)}\n${facts(response, interrupted)}\n`);
  const below = await app.store.usedBelow(response.id);
  if (below.responses > 1) {
    const all = usedText({ total_tokens: below.tokens, cost: below.cost });
    out(`  with all below: ${all} in ${counted(below.responses, "response")}\n`);
  }
  for (const item of [...response.input, ...response.output]) {
    const whole = flags.full && item.type === "mcp_call" ? await app.store.output(item.id) : undefined;
    out(`\n${outStyle.cyan(heading(item))}\n${visible(whole ?? body(item))}\n`);
  }
  const mark = interrupted ? "cut there: its process ended" : "so far";
  for (const item of open)
    out(
      `\n${outStyle.cyan(`${heading({ ...item, status: "completed" } as Item)} [${mark}]`)}\n${visible(body(item))}\n`,
    );
  return 0;
}

/** What has been told of items that have not ended, or never will: they stand in the log alone. */
async function openItems(app: App, { id, output }: FullResponse, interrupted: boolean): Promise<Item[]> {
  const over = new Set(output.map((item) => item.id));
  const open = new Map<string, { item: Item; text: string }>();
  for (let after = -1; ; ) {
    const events = await app.store.events(id, after, PAGE);
    for (const event of events) {
      if (event.type === "response.output_item.added" && !over.has(event.item.id))
        open.set(event.item.id, { item: event.item, text: "" });
      else if (event.type === "response.output_item.done") open.delete(event.item.id);
      else if ("delta" in event) {
        const known = open.get(event.item_id);
        if (known) known.text += event.delta;
      }
    }
    after = events.at(-1)?.sequence_number ?? after;
    if (events.length < PAGE) break;
  }
  return [...open.values()].map(({ item, text }) => withText(item, text, interrupted ? "incomplete" : "in_progress"));
}

function withText(item: Item, text: string, status: "incomplete" | "in_progress"): Item {
  if (item.type === "message") return { ...item, status, content: [{ type: "output_text", text, annotations: [] }] };
  if (item.type === "reasoning") return { ...item, status, content: [{ type: "reasoning_text", text }] };
  if (item.type === "mcp_call" || item.type === "function_call") return { ...item, status, arguments: text };
  return item;
}

function facts(node: ResponseNode, interrupted: boolean): string {
  const ended = node.incompleteReason ? `${node.status} (${node.incompleteReason})` : node.status;
  const facts: [string, string | number | null][] = [
    ["status", interrupted ? `interrupted; go on with: rotunda resume ${shortId(node.id)}` : ended],
    ["previous", node.previousResponseId],
    ["caller", node.caller?.responseId ?? null],
    ["conversation", node.conversationId],
    ["profile", node.profile],
    ["model", node.model],
    ["workspace", node.workspace],
    ["created", new Date(node.createdAt).toISOString()],
    ["ended", node.endedAt === null ? null : new Date(node.endedAt).toISOString()],
    ["used", node.usage.total_tokens === 0 ? null : usedText(node.usage)],
    ["hash", node.hash],
    ["error", node.error ? `${node.error.code}: ${node.error.message}` : null],
  ];
  return facts.flatMap(([name, value]) => (value === null ? [] : [`  ${name}: ${visible(String(value))}`])).join("\n");
}

function heading(item: Item): string {
  const status = "status" in item && item.status !== "completed" ? ` [${item.status}]` : "";
  if (item.type === "message") return `${item.role}${status}`;
  if (item.type === "mcp_call") return `call ${visible(item.name)} (${shortId(item.id)})${status}`;
  return `${item.type}${status}`;
}

function body(item: Item): string {
  switch (item.type) {
    case "message":
      return item.content
        .map((part) => ("text" in part ? part.text : part.type === "refusal" ? part.refusal : "[image]"))
        .join("");
    case "reasoning":
      return item.content.map((part) => part.text).join("");
    case "mcp_call":
      return `${oneLine(item.arguments, 2_000)}\n${item.output ?? item.error ?? "(no outcome yet)"}`;
    case "mcp_approval_response":
      return item.approve ? "allowed" : `denied: ${item.reason ?? ""}`;
    case "function_call":
    case "mcp_approval_request":
      return `${item.name} ${item.arguments}`;
    case "function_call_output":
      return item.output;
    case "compaction": {
      const { covers } = item;
      const range = covers
        ? `[${counted(covers.items, "item")}, ${shortId(covers.from)} to ${shortId(covers.to)}]\n`
        : "";
      return `${range}${item.summary}`;
    }
  }
}
