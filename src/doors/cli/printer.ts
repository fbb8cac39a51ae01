/**
 * Printers: a run's events as a person's text, one JSON object, or JSON lines.
 *
 * Invariant: stdout holds the result and nothing else; everything else goes to stderr. Text of models and
 * tools passes `visible` before it reaches a terminal.
 */
import type { RunEvent } from "../../types/event.ts";
import type { CompactionItem, Item, McpCallItem } from "../../types/item.ts";
import type { FullResponse } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import { MarkdownStream } from "./markdown.ts";
import type { Style } from "./style.ts";

export interface Printer {
  /** `took`: milliseconds of a call that has its outcome, where they are stored. */
  event(event: RunEvent, took?: number): void;
  /** The last word. `duration` in milliseconds. `late`: who had not answered when the time was over. */
  end(response: FullResponse, duration: number, late?: string): void;
}

export interface Streams {
  out: (text: string) => void;
  err: (text: string) => void;
  /** Style of stdout and stderr; plain where they are no terminals. */
  outStyle: Style;
  errStyle: Style;
  /** stdout is a terminal: markdown is rendered. */
  terminal: boolean;
}

export interface TextOptions {
  stream: boolean;
  verbose: boolean;
  /** False: the events come from another process, so calls take as long as is stored of them. */
  measured?: boolean;
}

export class TextPrinter implements Printer {
  readonly #streams: Streams;
  readonly #options: TextOptions;
  readonly #markdown: MarkdownStream;
  /** Labels of calls, and when they began. */
  readonly #calls = new Map<string, { label: string; began: number }>();
  #section: "none" | "text" | "reasoning" = "none";
  #atLineStart = true;
  #wrote = false;
  /** What was said last was cut off. */
  #cut = false;

  constructor(streams: Streams, options: TextOptions) {
    this.#streams = streams;
    this.#options = options;
    this.#markdown = new MarkdownStream(streams.outStyle, (text) => streams.out(text));
  }

  event(event: RunEvent, took?: number): void {
    switch (event.type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        if (this.#options.stream) this.#text(event.delta);
        break;
      case "response.reasoning_text.delta":
        this.#reasoning(event.delta);
        break;
      case "response.output_item.added":
        if (event.item.type === "mcp_call") this.#remember(event.item);
        break;
      case "response.mcp_call_arguments.done":
        this.#callBegins(event.item_id, event.arguments);
        break;
      case "response.mcp_call.in_progress":
        this.#begun(event.item_id);
        break;
      case "response.output_item.done":
        this.#itemDone(event.item, took);
        break;
      default:
    }
  }

  #enter(section: "none" | "text" | "reasoning"): void {
    if (this.#section === section) return;
    if (this.#section === "text") this.#endText();
    if (this.#section === "reasoning" && !this.#atLineStart) this.#streams.err("\n");
    this.#section = section;
    if (section === "text" && this.#wrote) this.#streams.out("\n");
    const { errStyle } = this.#streams;
    if (section === "text" && this.#cut) this.#streams.err(errStyle.yellow("[cut off there; it begins anew]\n"));
    this.#cut = false;
    if (section === "reasoning")
      this.#streams.err(errStyle.yellow(this.#options.verbose ? "💭 Agent Reasoning\n" : "thinking: "));
    if (section === "text" && this.#options.verbose) this.#streams.err(errStyle.green("💬 Agent Response\n"));
  }

  #text(delta: string): void {
    this.#enter("text");
    this.#wrote = true;
    if (this.#streams.terminal) this.#markdown.push(delta);
    else this.#streams.out(delta);
    this.#atLineStart = delta.endsWith("\n");
  }

  #endText(): void {
    if (this.#streams.terminal) this.#markdown.end();
    else if (!this.#atLineStart) this.#streams.out("\n");
  }

  #reasoning(delta: string): void {
    this.#enter("reasoning");
    this.#streams.err(this.#streams.errStyle.yellow(visible(delta)));
    this.#atLineStart = delta.endsWith("\n");
  }

  #remember(item: McpCallItem): void {
    this.#calls.set(item.id, { label: labelOf(item), began: performance.now() });
  }

  /** Only now: before, a person may have been asked. */
  #begun(itemId: string): void {
    const known = this.#calls.get(itemId);
    this.#calls.set(itemId, { label: known?.label ?? "tool", began: performance.now() });
  }

  #callBegins(itemId: string, text: string): void {
    this.#enter("none");
    const label = this.#calls.get(itemId)?.label ?? "tool";
    const { errStyle, err } = this.#streams;
    if (this.#options.verbose) err(`${errStyle.cyan(`🔧 Tool Call: ${label}`)}\n${visible(prettyArguments(text))}\n`);
    else err(`${errStyle.cyan(`→ ${label}`)} ${errStyle.dim(visible(oneLine(text, 100)))}\n`);
  }

  #itemDone(item: Item, took: number | undefined): void {
    if (item.type === "mcp_call") this.#callEnds(item, took);
    else if (item.type === "compaction") this.#compacted(item);
    else if (item.type === "message" && item.role === "assistant") {
      if (this.#section === "text") this.#enter("none");
      this.#cut = item.status === "incomplete";
    }
  }

  /** Something that was said before is not told to the model any more: whoever reads along must know. */
  #compacted({ summary, covers }: CompactionItem): void {
    this.#enter("none");
    const { errStyle, err } = this.#streams;
    const items = covers ? counted(covers.items, "older item") : "older items";
    err(`${errStyle.cyan("≡ compacted")} ${items} ${errStyle.dim(visible(oneLine(summary, 120)))}\n`);
  }

  #callEnds(item: McpCallItem, took: number | undefined): void {
    this.#enter("none");
    const label = labelOf(item);
    const began = this.#options.measured === false ? undefined : this.#calls.get(item.id)?.began;
    const time = took ?? (began === undefined ? undefined : performance.now() - began);
    const duration = time === undefined ? "" : `${Math.round(time)} ms`;
    const { errStyle, err } = this.#streams;
    const succeeded = item.status === "completed";
    const text = item.output ?? item.error ?? "";
    const shown = duration === "" ? "" : ` ${errStyle.dim(duration)}`;
    if (this.#options.verbose) {
      const mark = succeeded ? "✅ Success" : "❌ Failed";
      err(
        `${errStyle.cyan(`📊 Tool Result: ${label} [${mark}]${duration === "" ? "" : ` (${duration})`}`)}\n${visible(shortResult(text))}\n`,
      );
    } else if (succeeded) err(`${errStyle.green("✓")} ${label}${shown}\n`);
    else err(`${errStyle.red("✗")} ${label}${shown} ${visible(oneLine(text, 160))}\n`);
  }

  end(response: FullResponse, duration: number, late?: string): void {
    this.#enter("none");
    const { errStyle, err, out } = this.#streams;
    if (!this.#options.stream) {
      const text = finalText(response);
      if (this.#streams.terminal) {
        this.#markdown.push(text);
        this.#markdown.end();
      } else if (text !== "") out(text.endsWith("\n") ? text : `${text}\n`);
    }
    if (response.incompleteReason === "max_output_tokens") err("[Response truncated due to length limit]\n");
    else if (response.incompleteReason === "max_turns") err("[Agent stopped — reached maximum iteration limit]\n");
    else if (response.incompleteReason === "max_time") err(errStyle.yellow(`[${outOfTime(response, late)}]\n`));
    else if (response.incompleteReason !== null) err(errStyle.yellow(`[incomplete: ${response.incompleteReason}]\n`));
    if (response.degraded)
      err(errStyle.yellow("[degraded: the model could not answer; this was made of the tool results]\n"));
    if (response.error) err(`${errStyle.red("error:")} ${visible(response.error.message)} [${response.error.code}]\n`);
    if (this.#options.verbose) this.#statistics(response, duration);
    if (response.error?.code === "storage_damaged")
      err("  rotunda doctor says what is damaged, and what can be done\n");
    err(errStyle.dim(`Response ID: ${response.id} (${response.status}${wayOn(response)})\n`));
  }

  #statistics(response: FullResponse, duration: number): void {
    const calls = response.output.filter((item) => item.type === "mcp_call").length;
    const { usage } = response;
    const tokens = `${usage.input_tokens} in, ${usage.output_tokens} out`;
    this.#streams.err(
      `✨ Session Completed\nDuration: ${seconds(duration)} | Tool Calls: ${calls} | Tokens: ${tokens}\n`,
    );
  }
}

/** A tool of a server by the name that models know it by, whichever door shows it. */
function labelOf({ server_label, name }: McpCallItem): string {
  return visible(server_label === "rotunda" ? name : `${server_label}__${name}`);
}

/** One object at the end, for scripts. */
export class JsonPrinter implements Printer {
  readonly #streams: Streams;

  constructor(streams: Streams) {
    this.#streams = streams;
  }

  event(): void {
    // Only the end is told.
  }

  end(response: FullResponse, duration: number): void {
    const result = {
      response_id: response.id,
      conversation_id: response.conversationId,
      status: response.status,
      ...(response.incompleteReason !== null && { incomplete_reason: response.incompleteReason }),
      output_text: finalText(response),
      model: response.model,
      profile: response.profile,
      usage: response.usage,
      turns: response.turns,
      tool_calls: response.output.filter((item) => item.type === "mcp_call").length,
      duration_ms: Math.round(duration),
      ...(response.degraded && { degraded: true }),
      ...(response.error && { error: response.error }),
    };
    this.#streams.out(`${JSON.stringify(result)}\n`);
  }
}

/** One event a line: what the log holds, as it is told. */
export class StreamJsonPrinter implements Printer {
  readonly #streams: Streams;
  readonly #responseId: string;

  constructor(streams: Streams, responseId: string) {
    this.#streams = streams;
    this.#responseId = responseId;
  }

  event({ sequence_number: seq, ...event }: RunEvent): void {
    this.#streams.out(`${JSON.stringify({ response_id: this.#responseId, seq, ...event })}\n`);
  }

  end(): void {
    // The terminal event has said it.
  }
}

/** From one that has come to nothing there is nothing to go on from: then what it went on from. */
function wayOn(response: FullResponse): string {
  if (response.endedAt === null) return `; go on with: rotunda resume ${shortId(response.id)}`;
  const said = finalText(response) !== "" || response.output.some((item) => item.type !== "message");
  const goesOn = response.status === "completed" || said;
  const from = goesOn ? response.id : response.previousResponseId;
  const late = response.incompleteReason === "max_time";
  if (from === null && !late) return "";
  const start = from === null ? "" : ` --from ${shortId(from)}`;
  const time = late ? ` --timeout ${Math.max(60, 2 * (response.settings.limits?.seconds ?? 0))}` : "";
  return `; ${late && !goesOn ? "ask again" : "go on"} with: rotunda chat${start}${time} "…"`;
}

function outOfTime({ settings }: FullResponse, late: string | undefined): string {
  const limit = settings.limits?.seconds;
  const after = limit === undefined ? "" : `, after ${limit} s`;
  return `incomplete: max_time${after}${late === undefined ? "" : `; it was waiting for ${late} to answer`}`;
}

function finalText(response: FullResponse): string {
  const texts = response.output.flatMap((item) =>
    item.type === "message" && item.role === "assistant"
      ? [
          item.content
            .map((part) => (part.type === "refusal" ? part.refusal : "text" in part ? part.text : ""))
            .join(""),
        ]
      : [],
  );
  return texts.filter((text) => text !== "").at(-1) ?? "";
}

/** Short arguments on one line, long ones indented (parity F18). */
function prettyArguments(text: string): string {
  if (text.length < 80) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Two lines, 500 characters (parity F18). */
function shortResult(text: string): string {
  const lines = text.split("\n");
  const short = lines.slice(0, 2).join("\n").slice(0, 500);
  return short.length < text.length ? `${short} …` : short;
}

function seconds(milliseconds: number): string {
  return milliseconds < 1_000 ? `${Math.round(milliseconds)}ms` : `${(milliseconds / 1_000).toFixed(1)}s`;
}
