/** How the terminal is opened: what the command line hands over. Invariant: nothing here knows the command line. */
import type { App } from "../../types/app.ts";
import type { Elicitation, ElicitationAnswer } from "../../types/elicitation.ts";
import type { RunRequest } from "../../types/engine.ts";
import type { ResponseNode } from "../../types/response.ts";

/** What the next turn goes on from, and who answers it. */
export interface Choice {
  /** Full id of the response to go on from; absent: a new conversation. */
  from?: string;
  model?: string;
  profile?: string;
}

export interface TerminalOptions {
  /** Made while the first frame already stands. */
  app(): Promise<App>;
  /** The request of a turn, as the flags of the command want it. Without `from`: as the flags say. */
  request(prompt: string, choice: Choice, fresh: boolean): Promise<RunRequest>;
  /** Starts it where it outlives this terminal, if there is such a place. */
  start(app: App, request: RunRequest): Promise<ResponseNode>;
  /** Writes the conversation that a response stands in to a file; resolves with what there is to say. */
  exportTo(responseId: string, file: string): Promise<string>;
  /** Questions of MCP servers to runs in the server of this machine. Empty where there is none. */
  questions(app: App): Promise<Elicitation[]>;
  /** Throws `not_found`, `usage`. */
  answerQuestion(app: App, id: string, answer: ElicitationAnswer): Promise<void>;
  /** Who answers, as the flags say. */
  choice: Choice;
  /** The flags name something to go on from: it is shown first. */
  goesOn: boolean;
  /** The conversation that they name, which may not be there yet. */
  conversation?: string;
  colour: boolean;
  version: string;
  /** Words for the person that come from elsewhere in the program are told here while the screen stands. */
  divert(listener: ((text: string) => void) | undefined): void;
}
