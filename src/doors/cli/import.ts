/**
 * rotunda import: another program's settings and conversations become ours.
 *
 * Invariant: what is there already stays as it is, and nothing is taken twice; a conversation is listed only once it is
 * whole; no secret is printed.
 */
import type { App, ImportedConversation, ImportedPart, ImportedTurn, ImportPlan } from "../../types/app.ts";
import type { NewEvent, RunEvent } from "../../types/event.ts";
import type { Entry, EntryMeta, Item, McpCallItem, MessageItem } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import { LOCAL, type ResponseNode } from "../../types/response.ts";
import type { SettingsFile } from "../../types/settings.ts";
import { newId } from "../../util/ids.ts";
import { newProcessName } from "../../util/process-name.ts";
import { counted, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

export interface ImportFlags {
  dryRun?: boolean;
  json?: boolean;
  /** Of a file of `rotunda export`: responses and conversations only. */
  contentOnly?: boolean;
}

interface Outcome {
  source: string;
  dryRun: boolean;
  conversations: number;
  /** Conversations that had been imported before. */
  known: number;
  settingsChanged: boolean;
  taken: string[];
  left: string[];
}

export async function importFrom(context: CommandContext, path: string, flags: ImportFlags): Promise<number> {
  const { importCopy, isCopyFile } = await import("./import-copy.ts");
  if (isCopyFile(context.workspace, path)) return importCopy(context, path, flags);
  const plan = await (await context.setUp()).readImport(path);
  const app = await context.app();
  const outcome = await take(app, plan, flags.dryRun === true);
  const { out, err } = context.streams;
  if (flags.json) {
    out(`${JSON.stringify(outcome)}\n`);
    return 0;
  }
  for (const text of outcome.taken) out(`+ ${visible(app.redact(text))}\n`);
  for (const text of outcome.left) out(`- ${visible(app.redact(text))}\n`);
  const known = outcome.known === 0 ? "" : `, ${outcome.known} had been imported before`;
  const done = outcome.dryRun ? "would be imported" : "imported";
  err(
    `${visible(plan.source)}: ${counted(outcome.conversations, "conversation")} ${done}${known}. Settings: ${app.settings.path}\n`,
  );
  return 0;
}

async function take(app: App, plan: ImportPlan, dryRun: boolean): Promise<Outcome> {
  const outcome: Outcome = {
    source: plan.source,
    dryRun,
    conversations: 0,
    known: 0,
    settingsChanged: false,
    taken: plan.notes.filter((note) => note.taken).map((note) => note.text),
    left: plan.notes.filter((note) => !note.taken).map((note) => note.text),
  };
  const before = app.settings.read();
  const merged = structuredClone(before);
  outcome.left.push(...mergeSettings(merged, plan.settings));
  outcome.settingsChanged = JSON.stringify(merged) !== JSON.stringify(before);
  if (!dryRun && outcome.settingsChanged) {
    await app.settings.change((draft) => void mergeSettings(draft, plan.settings));
    const entry = { who: "cli", door: "cli", responseId: null, at: Date.now(), details: { imported: plan.source } };
    await app.store.audit({ action: "settings", ...entry });
  }
  const known = plan.conversations.length > 0 ? await importedBefore(app) : new Set();
  for (const conversation of plan.conversations) {
    if (known.has(conversation.sourceId)) outcome.known++;
    else {
      if (!dryRun) await writeConversation(app, conversation);
      outcome.conversations++;
    }
  }
  return outcome;
}

// ---- settings

/** Adds what is not there; says what stays as it is. */
function mergeSettings(draft: SettingsFile, wish: SettingsFile): string[] {
  const stays: string[] = [];
  const keep = (what: string) => void stays.push(`${what}: there already, and stays as it is`);
  const models = draft.models ?? [];
  for (const model of wish.models ?? []) {
    if (models.some((one) => one.id === model.id)) keep(`model ${String(model.id)}`);
    else models.push(model);
  }
  if (models.length > 0) draft.models = models;
  for (const key of ["mcpServers", "profiles", "profileDetails", "enabledServers", "speakmcp", "server"] as const) {
    const added: JsonObject = {};
    const [before, now] = [(draft[key] ?? {}) as JsonObject, (wish[key] ?? {}) as JsonObject];
    for (const [name, value] of Object.entries(now)) {
      if (!Object.hasOwn(before, name)) added[name] = value;
      else if (JSON.stringify(before[name]) !== JSON.stringify(value) && key !== "profileDetails")
        keep(`${key}.${name}`);
    }
    if (Object.keys(added).length > 0) Object.assign(draft, { [key]: { ...before, ...added } });
  }
  if (wish.profile !== undefined && draft.profile !== undefined && draft.profile !== wish.profile) keep("profile");
  else if (wish.profile !== undefined) draft.profile = wish.profile;
  const asks = [...new Set([...texts(draft.permissions?.ask), ...texts(wish.permissions?.ask)])];
  if (asks.length > 0) draft.permissions = { ...draft.permissions, ask: asks };
  return stays;
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

// ---- conversations

async function importedBefore(app: App): Promise<Set<unknown>> {
  const known = new Set<unknown>();
  let before: string | undefined;
  for (;;) {
    const page = await app.store.conversations({ limit: 500, owner: LOCAL, ...(before !== undefined && { before }) });
    for (const { metadata } of page) if (metadata.importedFrom !== undefined) known.add(metadata.importedFrom);
    before = page.at(-1)?.id;
    if (page.length < 500 || before === undefined) return known;
  }
}

/** The responses first, one after the other; the pointer last, so that a half of it is never listed. */
async function writeConversation(app: App, imported: ImportedConversation): Promise<void> {
  const conversationId = newId("conv");
  const process = newProcessName();
  let previous: string | null = null;
  for (const turn of imported.turns) {
    const writer: TurnWriter = new TurnWriter(app, turn);
    previous = await writer.write({ previous, conversationId, process });
  }
  const { sourceId, title, createdAt, updatedAt } = imported;
  await app.store.saveConversation({
    id: conversationId,
    owner: LOCAL,
    name: null,
    title: app.redact(title).slice(0, 200),
    head: previous,
    workspace: app.workspace,
    metadata: { importedFrom: sourceId },
    createdAt,
    updatedAt,
  });
}

const ENDED = { status: "completed", incompleteReason: null, error: null } as const;

/** One turn as a response that has ended: the same rows as the engine would have written. */
class TurnWriter {
  readonly #app: App;
  readonly #turn: ImportedTurn;
  readonly #entries: Entry[] = [];
  readonly #events: RunEvent[] = [];
  readonly #outputs: { itemId: string; text: string }[] = [];
  /** The number of the model call that the next item belongs to, and whether that call has tool calls already. */
  #modelCall = 1;
  #hasCalls = false;

  constructor(app: App, turn: ImportedTurn) {
    this.#app = app;
    this.#turn = turn;
  }

  async write(place: { previous: string | null; conversationId: string; process: string }): Promise<string> {
    const { prompt, at, endedAt, parts } = this.#turn;
    const { store } = this.#app;
    const node = this.#node(place.previous, place.conversationId);
    const input: Entry[] =
      prompt === null ? [] : [{ side: "input", position: 0, turn: 0, item: this.#message("user", prompt), meta: {} }];
    this.#emit({ type: "response.created" });
    this.#emit({ type: "response.in_progress" });
    const begun = this.#events.splice(0);
    await store.create({ node, input, events: begun, process: place.process, conversation: null });
    for (const part of parts) this.#write(part);
    this.#closeModelCall("stop");
    this.#emit({ type: "response.completed", status: "completed" });
    const events = this.#events.map((event, index) => ({ ...event, sequence_number: begun.length + index }));
    await store.append(
      {
        responseId: node.id,
        fence: 1,
        sealed: false,
        events,
        entries: this.#entries,
        outputs: this.#outputs,
        approvals: [],
        audits: [],
        node: { ...ENDED, endedAt: Math.max(at, endedAt), ran: Math.max(0, endedAt - at) },
      },
      true,
    );
    return node.id;
  }

  #node(previousResponseId: string | null, conversationId: string): ResponseNode {
    const { at } = this.#turn;
    return {
      id: newId("resp"),
      owner: LOCAL,
      previousResponseId,
      caller: null,
      conversationId,
      profile: this.#app.config.defaultProfile,
      model: "imported",
      ...ENDED,
      status: "in_progress",
      degraded: false,
      usage: {
        input_tokens: 0,
        output_tokens: 0,
        total_tokens: 0,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens_details: { reasoning_tokens: 0 },
      },
      settings: {},
      workspace: this.#app.workspace,
      door: "import",
      depth: 0,
      createdAt: at,
      endedAt: null,
      waited: 0,
      ran: 0,
      restarts: 0,
      hash: null,
    };
  }

  #message(role: "user" | "assistant", text: string): MessageItem {
    const said = this.#app.redact(text);
    return {
      type: "message",
      id: newId("msg"),
      role,
      status: "completed",
      content: [
        role === "user" ? { type: "input_text", text: said } : { type: "output_text", text: said, annotations: [] },
      ],
    };
  }

  #write(part: ImportedPart): void {
    if (part.kind === "text") {
      // A text behind calls is the next answer of the model.
      if (this.#hasCalls) this.#closeModelCall("tool_calls");
      this.#writeText(part.text);
    } else {
      this.#hasCalls = true;
      this.#writeCall(part);
    }
  }

  #writeText(text: string): void {
    const item = this.#message("assistant", text);
    const at = this.#begin({ ...item, status: "in_progress", content: [] });
    const [part] = item.content;
    if (part?.type === "output_text") {
      this.#emit({ type: "response.content_part.added", ...at, content_index: 0, part: { ...part, text: "" } });
      this.#emit({ type: "response.output_text.delta", ...at, content_index: 0, delta: part.text });
      this.#emit({ type: "response.output_text.done", ...at, content_index: 0, text: part.text });
      this.#emit({ type: "response.content_part.done", ...at, content_index: 0, part });
    }
    this.#end(item, {});
  }

  #writeCall({ server, tool, input, output, error }: Extract<ImportedPart, { kind: "call" }>): void {
    const { redact, config } = this.#app;
    const whole = redact(output === "" ? "(no output)" : output);
    const cut = whole.length > config.toolOutputLimit;
    const text = cut
      ? `${whole.slice(0, config.toolOutputLimit)}\n[… cut; the whole has ${whole.length} characters]`
      : whole;
    const item: McpCallItem = {
      type: "mcp_call",
      id: newId("mcp"),
      server_label: server,
      name: tool,
      arguments: redact(JSON.stringify(input)),
      status: error === null ? "completed" : "failed",
      output: text,
      error: error === null ? null : redact(error),
      approval_request_id: null,
    };
    const at = this.#begin({ ...item, status: "in_progress", arguments: "", output: null, error: null });
    this.#emit({ type: "response.mcp_call_arguments.delta", ...at, content_index: 0, delta: item.arguments });
    this.#emit({ type: "response.mcp_call_arguments.done", ...at, arguments: item.arguments });
    this.#emit({ type: "response.mcp_call.in_progress", ...at });
    this.#emit({ type: error === null ? "response.mcp_call.completed" : "response.mcp_call.failed", ...at });
    if (cut) this.#outputs.push({ itemId: item.id, text: whole });
    this.#end(item, { tool: `${server}__${tool}`, callId: item.id, ...(cut && { wholeLength: whole.length }) });
  }

  #begin(item: Item): { output_index: number; item_id: string } {
    const position = this.#entries.length;
    this.#emit({ type: "response.output_item.added", output_index: position, item });
    return { output_index: position, item_id: item.id };
  }

  #end(item: Item, meta: EntryMeta): void {
    const position = this.#entries.length;
    this.#entries.push({ side: "output", position, turn: this.#modelCall, item, meta });
    this.#emit({ type: "response.output_item.done", output_index: position, item });
  }

  /** The mark on the last item of a model call by which the engine counts the calls. */
  #closeModelCall(finish: "stop" | "tool_calls"): void {
    const last = this.#entries.at(-1);
    if (last) last.meta = { ...last.meta, finish: this.#hasCalls ? "tool_calls" : finish };
    this.#modelCall++;
    this.#hasCalls = false;
  }

  #emit(event: NewEvent): void {
    this.#events.push({ ...event, sequence_number: this.#events.length } as RunEvent);
  }
}
