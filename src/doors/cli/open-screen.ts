/**
 * Opens the screen of the terminal, with what the flags of `rotunda chat` say.
 *
 * Invariant: while the screen stands, nothing else writes to the terminal.
 */
import { readServerFile } from "../../util/server-file.ts";
import type { TerminalChoice } from "./app-flags.ts";
import type { CommandContext } from "./context.ts";
import { type ChatFlags, requestFor } from "./request.ts";
import { startTurn } from "./turn.ts";

declare const ROTUNDA_VERSION: string;

export async function openScreen(context: CommandContext, flags: ChatFlags): Promise<number> {
  const { streams } = context;
  const { err } = streams;
  const { from, continue: latest, conversation, ...rest } = flags;
  const goesOn = from !== undefined || latest === true || conversation !== undefined;
  return context.terminal({
    app: () => context.app(flags),
    request(prompt, choice, fresh) {
      const chosen: ChatFlags = fresh && choice.from === undefined ? { ...flags } : { ...rest };
      if (choice.from !== undefined) chosen.from = choice.from;
      if (choice.model !== undefined) chosen.model = choice.model;
      if (choice.profile !== undefined) chosen.agent = choice.profile;
      return requestFor(context, chosen, prompt);
    },
    start: startTurn,
    async exportTo(responseId, file) {
      const { exportTo } = await import("./export.ts");
      await exportTo(context, responseId, { output: file });
      return `Exported to ${file}`;
    },
    async questions(app) {
      if (!readServerFile(app.stateDirectory)) return [];
      const { questionsInServer } = await import("./remote.ts");
      return questionsInServer(app);
    },
    async answerQuestion(app, id, answer) {
      const { answerInServer } = await import("./remote.ts");
      return answerInServer(app, id, answer);
    },
    choice: choiceOf(flags),
    goesOn,
    ...(conversation !== undefined && { conversation }),
    colour: streams.outStyle.bold("x") !== "x",
    version: ROTUNDA_VERSION,
    divert(listener) {
      streams.err = listener ? (text) => listener(text) : err;
      context.hear(listener && (({ level, text }) => void ((level === "warn" || level === "error") && listener(text))));
    },
  });
}

function choiceOf({ model, agent }: ChatFlags): TerminalChoice {
  return { ...(model !== undefined && { model }), ...(agent !== undefined && { profile: agent }) };
}
