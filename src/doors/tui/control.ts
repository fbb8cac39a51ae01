/**
 * Control: what the person does at the screen, and what follows from it.
 *
 * Invariant: nothing that is typed is lost while the engine is being made; whatever goes wrong becomes a line of the
 * transcript.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { SelectItem, TUI } from "@earendil-works/pi-tui";
import type { Decision } from "../../types/approval.ts";
import type { ElicitationAnswer } from "../../types/elicitation.ts";
import { toRotundaError } from "../../types/error.ts";
import { contextFor } from "./ask-context.ts";
import { ApprovalPanel } from "./ask-panel.ts";
import { type Ask, idOf } from "./asks.ts";
import { ListBlock, loadMarkdown, NoteBlock, OutputBlock } from "./block.ts";
import { clean, typeable } from "./clean.ts";
import { type Command, commandsFor, type Stage } from "./commands.ts";
import { Completion } from "./completion.ts";
import { Images, pastedPath } from "./images.ts";
import { lastWords } from "./leaving.ts";
import type { TerminalOptions } from "./options.ts";
import { PickPanel } from "./pick.ts";
import { QuestionPanel } from "./question-panel.ts";
import { Screen } from "./screen.ts";
import { Session } from "./session.ts";
import type { Look } from "./style.ts";
import { markAsking } from "./turn.ts";

/** Milliseconds in which a second Ctrl-C leaves. */
const TWICE = 2_000;
const TICK = 100;
/** Exit code of whoever leaves with Ctrl-C. */
const INTERRUPTED = 130;
/** Milliseconds after which what the first answer needs is loaded: by then the screen is ready. */
const SETTLED = 60;

export class Control {
  readonly screen: Screen;
  readonly #tui: TUI;
  readonly #options: TerminalOptions;
  readonly #leave: (exitCode: number) => void;
  readonly #fail: (error: unknown) => void;
  readonly #commands: Command[];
  readonly #images = new Images();
  readonly #timer: NodeJS.Timeout;
  readonly #opened = Promise.withResolvers<Session>();
  #session: Session | undefined;
  #asked: string | undefined;
  /** The last Ctrl-C, and the turn that ran then. */
  #interrupted: { at: number; turn: string | undefined } | undefined;
  #quit = false;
  #byHand: AbortController | undefined;

  /** `fail`: without an engine there is nothing to stay for. */
  constructor(
    tui: TUI,
    look: Look,
    options: TerminalOptions,
    leave: (exitCode: number) => void,
    fail: (error: unknown) => void,
  ) {
    this.#tui = tui;
    this.#options = options;
    this.#leave = leave;
    this.#fail = fail;
    this.screen = new Screen(tui, look, {
      submit: (text, queue) => this.#submit(text, queue),
      interrupt: () => this.interrupt(),
      paste: (text) => this.#paste(text),
      takeBack: () => this.#takeBack(),
      readOlder: () => {
        const reading = this.screen.transcript.readOlder();
        reading.then(this.#update, (error: unknown) => this.#session?.fail(error));
      },
    });
    this.#commands = commandsFor(() => this.#stage());
    this.#timer = setInterval(() => {
      if (this.screen.moving) this.#update();
      // Back at the end: what has come meanwhile is shown at once.
      const { elsewhere } = this.#session ?? {};
      if (elsewhere?.wentOn && this.#mayMove()) elsewhere.look();
    }, TICK);
    this.#opened.promise.catch(() => undefined);
  }

  readonly #update = (): void => {
    const turn = this.#session?.running?.id;
    // What is said of the next Ctrl-C is not so of a turn that has begun since.
    if (turn !== undefined && turn !== this.#interrupted?.turn) this.screen.hint = "";
    this.#showAsk();
    this.#tui.requestRender();
  };

  /** Nobody looks at something else than the end. */
  #mayMove(): boolean {
    const { transcript, view, panel } = this.screen;
    return transcript.following && !transcript.choosing && !view && !(panel instanceof PickPanel);
  }

  /** Makes the engine behind the screen. */
  open(): void {
    this.screen.transcript.add(
      new NoteBlock(`Rotunda ${this.#options.version} · /help shows commands and keys · /quit leaves`),
    );
    this.#options.divert((text) => this.#note(text.trimEnd(), "warn"));
    this.#make().then(this.#opened.resolve, (error: unknown) => {
      this.#opened.reject(error);
      this.#fail(error);
    });
  }

  async #make(): Promise<Session> {
    const options = this.#options;
    const app = await options.app();
    const session = new Session(app, this.screen.transcript, options, this.#update);
    session.mayMove = () => this.#mayMove();
    session.giveBack = (queued) => this.#giveBack(queued.map(({ text }) => text));
    this.#session = session;
    this.screen.session = session;
    this.screen.editor.setAutocompleteProvider(new Completion(this.#commands, app.workspace));
    if (app.config.servers.length > 0)
      this.#note("Connected to MCP servers. Type /quit to exit, /clear to reset history.");
    const looks = options.goesOn ? loadMarkdown() : sleep(SETTLED).then(loadMarkdown);
    if (options.goesOn) {
      await looks;
      const { previousResponseId, conversation } = await options.request("", options.choice, true);
      const known = conversation ? await app.store.conversation(conversation) : undefined;
      const from = previousResponseId ?? known?.head ?? undefined;
      const said = from === undefined ? [] : await session.open(from, conversation !== undefined);
      if (from === undefined && options.conversation !== undefined) session.standAtBeginning(options.conversation);
      for (const text of said.slice(-50)) this.screen.editor.addToHistory(typeable(text.slice(0, 20_000)));
    }
    if (session.model === "") session.model = await defaultModel(session);
    this.#update();
    looks.then(
      () => {
        this.screen.invalidate();
        this.#update();
      },
      (error: unknown) => session.fail(error),
    );
    return session;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#byHand?.abort();
    this.#session?.leave();
  }

  /** What stands below the prompt of the shell afterwards. */
  lastWords(): Promise<string> {
    return lastWords(this.#session, this.#quit).catch(() => "");
  }

  // ---- what is said

  #note(text: string, kind: "info" | "warn" | "error" | "plain" = "info"): void {
    this.screen.transcript.add(new NoteBlock(text, kind));
    this.screen.transcript.follow();
    this.#update();
  }

  #submit(text: string, queue: boolean): void {
    if (text.trim() === "") return;
    this.screen.editor.addToHistory(text.length > 20_000 ? text.slice(0, 20_000) : text);
    this.screen.transcript.follow();
    this.#perform(text, queue).catch((error: unknown) => {
      if (this.#session) this.#session.fail(error);
    });
  }

  async #perform(text: string, queue: boolean): Promise<void> {
    if (text.trim() === "/quit" || text.trim() === "/exit") return this.#goodbye();
    const session = await this.#opened.promise;
    const word = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(text.trim());
    const command = word && this.#commands.find(({ name }) => name === word[1]);
    if (command) return command.run(word[2]?.trim() ?? "");
    if (word && !text.includes("\n"))
      return this.#note(`Unknown command /${word[1]}. /help shows what there is.`, "warn");
    if (text.startsWith("!")) return this.#runByHand(session, text.slice(1).trim());
    const said = { text, images: this.#images.in(text) };
    await session.say(said, queue);
    this.#update();
  }

  /** In the sandbox, as the tool of the model does it. */
  async #runByHand(session: Session, command: string): Promise<void> {
    if (command === "") return;
    const block = new OutputBlock(command);
    this.screen.transcript.add(block);
    this.#update();
    const stop = new AbortController();
    this.#byHand = stop;
    try {
      const { text, isError } = await session.app.engine.call(
        "bash",
        { command },
        { workspace: session.app.workspace, by: "local", door: "tui", signal: stop.signal },
      );
      block.finish(text, isError === true);
      session.byHand.push(`I ran this by hand:\n$ ${command}\n\`\`\`\n${text.slice(0, 30_000)}\n\`\`\``);
    } catch (error) {
      block.finish(error instanceof Error ? error.message : String(error), true);
    } finally {
      this.#byHand = undefined;
      this.#update();
    }
  }

  #paste(text: string): boolean {
    const path = pastedPath(text);
    if (path === undefined && text !== "") return false;
    this.#attach(path, text).then(this.#update, () => undefined);
    return true;
  }

  async #attach(path: string | undefined, text: string): Promise<void> {
    const { editor } = this.screen;
    if (path === undefined) {
      const found = await this.#images.fromClipboard();
      if ("why" in found) this.#note(found.why, "warn");
      else editor.insertTextAtCursor(`${found.marker} `);
      return;
    }
    const marker = await this.#images.fromFile(path, this.#session?.app.workspace ?? process.cwd());
    if (marker === undefined) editor.handleInput(`\u001b[200~${text}\u001b[201~`);
    else editor.insertTextAtCursor(`${marker} `);
  }

  #takeBack(): void {
    const said = this.#session?.queue.pop();
    if (said) this.#giveBack([said.text]);
  }

  /** Into the editor, before what stands there. */
  #giveBack(texts: readonly string[]): void {
    const { editor } = this.screen;
    const all = [...texts.map(typeable), editor.getExpandedText()].filter((text) => text.trim() !== "");
    editor.setText(all.join("\n\n"));
    this.#update();
  }

  // ---- Ctrl-C and leaving

  interrupt(): void {
    const { view, panel } = this.screen;
    if (view) this.screen.view = undefined;
    else if (panel instanceof PickPanel) panel.leave();
    else this.#interrupt();
  }

  #interrupt(): void {
    const now = performance.now();
    const session = this.#session;
    const turn = session?.running?.id;
    const last = this.#interrupted;
    this.#interrupted = { at: now, turn };
    // A turn that has begun since is another thing to end.
    const isAnew = session?.starting === true || (turn !== undefined && turn !== last?.turn);
    if (last && now - last.at < TWICE && !isAnew) this.#leave(INTERRUPTED);
    else if (this.#byHand) this.#byHand.abort();
    else if (session?.cancel()) this.#hint("stopping · Ctrl-C again leaves");
    else {
      this.screen.editor.setText("");
      this.#hint("Ctrl-C again leaves");
    }
  }

  #hint(text: string): void {
    this.screen.hint = text;
    this.#update();
    const timer = setTimeout(() => {
      if (this.screen.hint === text) this.screen.hint = "";
      this.#update();
    }, TWICE);
    timer.unref();
  }

  #goodbye(): void {
    this.#quit = true;
    this.#leave(0);
  }

  // ---- questions

  #showAsk(): void {
    const open = this.#session?.asks.open ?? [];
    markAsking(this.#session?.running, open);
    const [ask] = open;
    const id = ask && idOf(ask);
    if (id === this.#asked) return;
    if (this.screen.panel && this.#asked === undefined) return;
    this.#asked = id;
    this.screen.panel = ask ? this.#panelFor(ask) : undefined;
  }

  #panelFor(ask: Ask): ApprovalPanel | QuestionPanel {
    const session = this.#session;
    const over = (work: () => void) => {
      this.#asked = undefined;
      this.screen.panel = undefined;
      work();
      this.#update();
    };
    if (ask.kind === "question") return new QuestionPanel(ask, (answer) => this.#answer(ask, answer, over));
    const decided = (decision: Decision | undefined) =>
      over(() => {
        if (decision) return void session?.decide(ask, decision);
        session?.asks.leave(ask);
        return this.#note("It stays open: /approve shows it again, as does every other door.");
      });
    const context = session ? contextFor(session, ask) : Promise.resolve({});
    context.then(this.#update, () => undefined);
    return new ApprovalPanel(ask, decided, context);
  }

  /** Resolves with why an answer was not taken. */
  async #answer(
    ask: Extract<Ask, { kind: "question" }>,
    answer: ElicitationAnswer | undefined,
    over: (work: () => void) => void,
  ): Promise<string | undefined> {
    const session = this.#session;
    const server = clean(ask.elicitation.server);
    try {
      if (answer) await session?.asks.answer(ask, answer);
      else session?.asks.leave(ask);
    } catch (error) {
      const { code, message } = toRotundaError(error);
      this.#update();
      if (code === "usage") return message;
      over(() => session?.asks.leave(ask));
      session?.fail(error);
      return undefined;
    }
    over(() => {
      if (!answer) return this.#note(`${server} waits for an answer, for some minutes: /approve shows it again.`);
      return this.#note(answer.action === "accept" ? `You answered ${server}.` : `You declined what ${server} asked.`);
    });
    return undefined;
  }

  // ---- what commands may do

  #stage(): Stage {
    const session = this.#session;
    if (!session) throw new Error("the engine is not there yet");
    return {
      session,
      note: (text, kind) => this.#note(text, kind),
      list: (rows, end) => {
        this.screen.transcript.show(new ListBlock(rows, end));
        this.#update();
      },
      pick: (title, items, chosen) => this.#pick(title, items, chosen),
      tree: async (from) => {
        const { TreeView } = await import("./tree-view.ts");
        this.screen.view = await TreeView.open(session, from, this.#update, (id) => {
          this.screen.view = undefined;
          if (id !== undefined) session.open(id).catch((error: unknown) => session.fail(error));
        });
      },
      help: async (commands, keys) => {
        const { HelpView } = await import("./help-view.ts");
        this.screen.view = new HelpView(commands, keys, () => {
          this.screen.view = undefined;
        });
      },
      write: (text) => this.#giveBack([text]),
      quit: () => this.#goodbye(),
      exportTo: (id, file) => this.#options.exportTo(id, file),
    };
  }

  #pick(title: string, items: readonly SelectItem[], chosen?: string): Promise<string | undefined> {
    return new Promise((resolve) => {
      // A question that it covers is shown again behind it.
      this.#asked = undefined;
      this.screen.panel = new PickPanel(title, items, this.screen.look, chosen, (value) => {
        this.screen.panel = undefined;
        resolve(value);
        this.#update();
      });
    });
  }
}

async function defaultModel(session: Session): Promise<string> {
  const { app } = session;
  const { model } = await app.profile(session.choice.profile);
  if (model !== undefined) return model;
  const models = await app.models();
  return (models.find((one) => one.default) ?? models[0])?.id ?? "";
}
