/**
 * A session: a conversation of the tree, as one editor has it open.
 *
 * Invariant: its id is the conversation's, so every other door can go on with it; it runs one prompt at a time; the
 * conversation's last response, whoever made it, is what the next prompt goes on from.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type {
  AgentContext,
  AvailableCommand,
  PromptRequest,
  PromptResponse,
  SessionConfigOption,
  SessionModeState,
  SessionUpdate,
} from "@agentclientprotocol/sdk/unstable";
import type { App } from "../../types/app.ts";
import type { RunRequest } from "../../types/engine.ts";
import type { Notice } from "../../types/event.ts";
import type { Entry, Usage } from "../../types/item.ts";
import type { ResponseNode, RunSettings } from "../../types/response.ts";
import { oneLine, visible } from "../../util/text.ts";
import { type Choices, choicesAfter, choose, modesOf, optionsOf } from "./choices.ts";
import { refused } from "./errors.ts";
import { inputOf, withSkill, wordsOf } from "./prompt.ts";
import { replayInput, replayOf } from "./replay.ts";
import { fenced, textContent } from "./tool-calls.ts";
import { type Told, Turn, type TurnOptions } from "./turn.ts";
import { Updates } from "./updates.ts";

/** What the client can show beyond the basics. */
export interface Features {
  notices: boolean;
  compaction: boolean;
  elicitationForm: boolean;
  elicitationUrl: boolean;
}

export interface SessionOptions {
  id: string;
  cwd: string;
  app: App;
  client: AgentContext;
  features: Features;
  start: TurnOptions["start"];
  choices: Choices;
  /** Absolute path of the configuration file that was named. */
  configuration?: string;
}

/** Milliseconds between two updates of one call's progress. */
const PROGRESS = 250;
/** Milliseconds that a cancelled turn has. */
const PATIENCE = 10_000;
const TITLE = 60;
const EVENTS = 500;

export class Session {
  readonly id: string;
  readonly cwd: string;
  readonly app: App;
  readonly #options: SessionOptions;
  #choices: Choices;
  #turn: Turn | undefined;
  #told: Told | undefined;
  #prompting: Promise<unknown> = Promise.resolve();
  /** US dollars of all its turns, where endpoints tell. */
  #cost = 0;
  #progressAt = 0;

  constructor(options: SessionOptions) {
    this.id = options.id;
    this.cwd = options.cwd;
    this.app = options.app;
    this.#options = options;
    this.#choices = options.choices;
  }

  get busy(): boolean {
    return this.#turn !== undefined;
  }

  runs(responseId: string): boolean {
    return this.#turn?.has(responseId) ?? false;
  }

  tell(update: SessionUpdate): Promise<void> {
    return this.#options.client.notify("session/update", { sessionId: this.id, update });
  }

  // ---- what it begins with

  async state(): Promise<{ modes: SessionModeState; configOptions: SessionConfigOption[] }> {
    return { modes: modesOf(this.app, this.#choices), configOptions: await optionsOf(this.app, this.#choices) };
  }

  /** Goes on where the conversation stands: with who answered last, and what it has cost. Tells it all, if `replay`. */
  async takeUp(replay: boolean): Promise<void> {
    const { store } = this.app;
    const { head } = (await store.conversation(this.id)) ?? {};
    const path = head ? await store.path(head) : [];
    const last = path.at(-1);
    this.#choices = await choicesAfter(this.app, last?.node, this.#choices);
    this.#cost = path.reduce((sum, { node }) => sum + (node.usage.cost ?? 0), 0);
    if (!replay) return;
    const shown = { workspace: this.cwd, compaction: this.#options.features.compaction };
    const open = last && last.node.endedAt === null ? last : undefined;
    for (const update of replayOf(open ? path.slice(0, -1) : path, shown)) await this.tell(update);
    if (!open) return;
    for (const update of replayInput(open, shown)) await this.tell(update);
    await this.#tellSoFar(open.node.id);
  }

  /** What has happened in a response that has not ended; the next prompt tells the rest. */
  async #tellSoFar(id: string): Promise<void> {
    const updates = new Updates(this.cwd, { compaction: this.#options.features.compaction });
    let after = -1;
    for (;;) {
      const events = await this.app.store.events(id, after, EVENTS);
      for (const update of await updates.of(events)) await this.tell(update);
      updates.sent();
      after = events.at(-1)?.sequence_number ?? after;
      if (events.length < EVENTS) break;
    }
    this.#told = { id, after, updates };
  }

  async tellCommands(): Promise<void> {
    const skills = (await this.app.skills?.()) ?? [];
    if (skills.length === 0) return;
    const availableCommands = skills.map(({ name, description }): AvailableCommand => {
      return { name, description: visible(oneLine(description, 200)), input: { hint: "what to do" } };
    });
    await this.tell({ sessionUpdate: "available_commands_update", availableCommands });
  }

  // ---- choices

  /** Both ways to choose a profile are kept the same: the client that used one is told of the other. */
  async choose(option: string, value: string | boolean): Promise<SessionConfigOption[]> {
    const before = this.#choices.profile;
    this.#choices = await choose(this.app, this.#choices, option, value);
    const { profile } = this.#choices;
    if (profile !== before) await this.tell({ sessionUpdate: "current_mode_update", currentModeId: profile });
    return optionsOf(this.app, this.#choices);
  }

  async setMode(profile: string): Promise<void> {
    this.#choices = await choose(this.app, this.#choices, "profile", profile);
    const configOptions = await optionsOf(this.app, this.#choices);
    await this.tell({ sessionUpdate: "config_option_update", configOptions });
  }

  // ---- turns

  async prompt(request: PromptRequest): Promise<PromptResponse> {
    if (this.#turn) throw refused("a prompt of this session is still running; cancel it, or wait for its end");
    const answer = this.#prompt(request);
    this.#prompting = answer.catch(() => undefined);
    return answer;
  }

  async #prompt({ prompt }: PromptRequest): Promise<PromptResponse> {
    const { app, client, start, features } = this.#options;
    const told = this.#told;
    this.#told = undefined;
    const common = { app, client, start, workspace: this.cwd, sessionId: this.id, compaction: features.compaction };
    const turn = new Turn({ ...common, ...(told && { told }) });
    this.#turn = turn;
    const deaf = app.onNotice((notice) => this.#notice(notice));
    try {
      const input = withSkill(inputOf(prompt), (await app.skills?.()) ?? []);
      const { answer, ended } = await turn.run({ ...this.#request(), input }, () => this.#entitle(wordsOf(input)));
      await this.#tellUsage(ended);
      return answer;
    } finally {
      deaf();
      this.#turn = undefined;
    }
  }

  #request(): Omit<RunRequest, "input"> {
    const { profile, model, permissions } = this.#choices;
    const { configuration } = this.#options;
    const settings: RunSettings = {
      ...(configuration !== undefined && { configuration }),
      ...(permissions !== undefined && { mode: permissions }),
    };
    const request = { conversation: this.id, profile, workspace: this.cwd, door: "acp", settings };
    return { ...request, ...(model !== undefined && { model }) };
  }

  /** The conversation is named after its first prompt. */
  async #entitle(words: string): Promise<void> {
    const { store } = this.app;
    const conversation = await store.conversation(this.id);
    if (conversation?.title !== "") return;
    const title = oneLine(words, TITLE);
    await store.saveConversation({ ...conversation, title });
    const updatedAt = new Date(conversation.updatedAt).toISOString();
    await this.tell({ sessionUpdate: "session_info_update", title: visible(title), updatedAt });
  }

  async #tellUsage({ id }: ResponseNode): Promise<void> {
    const stored = await this.app.store.get(id);
    if (!stored) return;
    this.#cost += stored.node.usage.cost ?? 0;
    const { contextWindow: size } = this.app.config.models.find((one) => one.id === stored.node.model) ?? {};
    const usage = lastUsage(stored.entries);
    // How full a context is can be told only where its size is known.
    if (!usage || size === undefined) return;
    const cost = this.#cost > 0 ? { cost: { amount: this.#cost, currency: "USD" } } : {};
    await this.tell({ sessionUpdate: "usage_update", used: usage.input_tokens + usage.output_tokens, size, ...cost });
  }

  cancel(): void {
    this.#turn?.cancel();
  }

  /** Cancels; resolves when the turn has told its end, or does not come to one. */
  async end(): Promise<void> {
    this.cancel();
    await Promise.race([this.#prompting, sleep(PATIENCE, undefined, { ref: false })]);
  }

  /** Passing news of its own turn: how far a call has come, and what the person should know. */
  #notice({ responseId, level, topic, itemId, text }: Notice): void {
    if (responseId === null || !this.#turn?.has(responseId)) return;
    let update: SessionUpdate | undefined;
    if (itemId !== undefined && topic === "tools" && level === "debug") {
      const now = performance.now();
      if (now - this.#progressAt < PROGRESS || !this.#turn.hasDescribed(responseId, itemId)) return;
      this.#progressAt = now;
      const content = [textContent(fenced(visible(text)))];
      update = { sessionUpdate: "tool_call_update", toolCallId: itemId, content };
    } else if (this.#options.features.notices && (level === "warn" || level === "error")) {
      const severity = level === "warn" ? "warning" : "error";
      update = { sessionUpdate: "notice", severity, title: visible(oneLine(text, 500)) };
    }
    // Whoever no longer listens misses nothing that is not stored.
    if (update) this.tell(update).catch(() => undefined);
  }
}

/** Of the last model call: what its context held. */
function lastUsage(entries: readonly Entry[]): Usage | undefined {
  return entries.findLast(({ side, meta }) => side === "output" && meta.usage !== undefined)?.meta.usage;
}
