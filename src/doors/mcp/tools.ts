/**
 * The table of tools: names, words and what runs.
 *
 * Invariant: the same tools in the same order for everybody, so that a client may keep the list.
 */
import type { ServerContext } from "@modelcontextprotocol/server";
import { z } from "zod";
import * as asks from "./ask-tools.ts";
import * as chats from "./chat-tools.ts";
import { consensus, consensusInput, consensusOutput } from "./consensus.ts";
import { listInput, listOutput, listResponses } from "./listing.ts";
import type { Answer } from "./results.ts";
import type { Session } from "./session.ts";
import { type ToolEntry, tool } from "./tool-table.ts";

const taskId = z.object({ taskId: z.string().min(1).max(200).describe("The response id") });

export function toolsOf(session: Session, oldNames: boolean): ToolEntry[] {
  return [...askTools(session), ...chatTools(session), ...(oldNames ? bridgeTools(session) : [])];
}

function askTools(session: Session): ToolEntry[] {
  const { question, answerSchema: output } = asks;
  return [
    tool({
      name: "ask",
      title: "Ask another model or agent",
      description:
        "Ask any model, agent or profile and wait for the answer. It ends with `Response ID: …`: pass that as previousResponseId to go on, or to branch. A call that takes long returns the Response ID before the answer: then call ask_wait.",
      input: question,
      output,
      run: (given, context) => asks.ask(session, given, context),
    }),
    tool({
      name: "ask_async",
      title: "Ask in the background",
      description: "Start a task and return its id at once. It runs on, whatever becomes of this client.",
      input: question,
      output,
      run: (given) => asks.askAsync(session, given),
    }),
    tool({
      name: "ask_wait",
      title: "Wait for an answer",
      description: "Wait for a task that was started before, up to 50 seconds (more where progress is told).",
      input: taskId.extend({
        timeoutSeconds: z.number().min(0).max(280).optional().describe("Default: as long as this client waits"),
      }),
      output,
      reads: true,
      run: (given, context) => asks.askWait(session, given, context),
    }),
    tool({
      name: "ask_status",
      title: "How a task stands",
      description: "Status of a task, and its result once it has ended.",
      input: taskId,
      output,
      reads: true,
      run: (given) => asks.askStatus(session, given.taskId),
    }),
    tool({
      name: "ask_cancel",
      title: "Cancel a task",
      description: "End a task that runs. What it has said so far is kept.",
      input: taskId,
      output,
      run: (given) => asks.askCancel(session, given.taskId),
    }),
    tool({
      name: "branch",
      title: "Branch from an answer",
      description: "Ask again from an earlier answer, in a conversation of its own: the first one stays as it is.",
      input: question.required({ previousResponseId: true }),
      output,
      run: (given, context) => asks.branch(session, given, context),
    }),
    tool({
      name: "consensus",
      title: "Ask several models",
      description:
        "The same question to several models at once, each as a branch of its own, and their answers compared.",
      input: consensusInput,
      output: consensusOutput,
      run: (given, context) => consensus(session, given, context),
    }),
    tool({
      name: "list_responses",
      title: "List responses",
      description: "Answers and tasks, newest first, whichever way they were asked for.",
      input: listInput,
      output: listOutput,
      reads: true,
      run: (given) => listResponses(session, given),
    }),
  ];
}

function chatTools(session: Session): ToolEntry[] {
  return [
    tool({
      name: "chat",
      title: "Chat with Another LLM Model",
      description:
        "Say something to another model. Without a conversationId a conversation begins; with another modelId than before it goes on in a new one, with all that was said.",
      input: chats.chatInput,
      output: chats.chatOutput,
      run: (given, context) => chats.chat(session, given, context),
      tellError: chats.chatError,
    }),
    tool({
      name: "list_models",
      title: "See Available Models to Talk To",
      description: "Models, agents and profiles that can be asked. The first is the default.",
      input: z.object({}),
      output: chats.modelsOutput,
      reads: true,
      run: () => chats.listModels(session),
    }),
    tool({
      name: "conversation_history",
      title: "Review Your Conversation with Another Model",
      description: "What was said in a conversation so far.",
      input: z.object({ conversationId: z.string().min(1).max(200) }),
      output: chats.historyOutput,
      reads: true,
      run: (given) => chats.conversationHistory(session, given.conversationId),
      tellError: chats.chatError,
    }),
  ];
}

/** The names that the bridge's tools had in its later versions (parity C11, C12). */
function bridgeTools(session: Session): ToolEntry[] {
  const { question, answerSchema: output } = asks;
  const { prompt: _prompt, ...rest } = asks.questionShape;
  const message = z.object({ ...rest, message: z.string().min(1), async: z.boolean().default(true) });
  const query = question.extend({ async: z.boolean().default(false), sessionId: z.string().max(200).optional() });
  const start = (given: asks.Question, background: boolean, context: ServerContext): Promise<Answer> =>
    background ? asks.askAsync(session, given) : asks.ask(session, given, context);
  const named = (name: string, title: string) => ({ name, title, description: title, output });
  return [
    tool({
      ...named("start", "Start a task (the name that ask_async once had)"),
      input: message,
      run: ({ message: prompt, async: background, ...given }, context) =>
        start({ ...given, prompt }, background, context),
    }),
    tool({
      ...named("resume", "Go on from a response (the name that ask once had)"),
      input: message.required({ previousResponseId: true }),
      run: ({ message: prompt, async: background, ...given }, context) =>
        start({ ...given, prompt }, background, context),
    }),
    tool({
      ...named("status", "How a task stands (ask_status)"),
      input: taskId,
      reads: true,
      run: (given) => asks.askStatus(session, given.taskId),
    }),
    tool({
      ...named("cancel", "Cancel a task (ask_cancel)"),
      input: taskId,
      run: (given) => asks.askCancel(session, given.taskId),
    }),
    tool({
      ...named("query", "Ask (the name that ask once had)"),
      input: query,
      run: ({ async: background, sessionId, ...given }, context) =>
        start({ ...given, previousResponseId: given.previousResponseId ?? sessionId }, background, context),
    }),
  ];
}
