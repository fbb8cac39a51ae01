/**
 * The MCP server of Rotunda itself: one factory for HTTP and stdio, for every generation of the protocol.
 *
 * Invariant: the list of tools is the same for everybody and needs neither configuration nor database; nothing of an
 * app is made before something is asked that needs it, so a client that only connects waits for nothing.
 */
import { McpServer, type RequestStateCodec, type ServerContext } from "@modelcontextprotocol/server";
import { type ZodObject, z } from "zod";
import type { McpCaller } from "../../types/mcp.ts";
import * as asks from "./ask-tools.ts";
import type { Pending } from "./asking.ts";
import * as chats from "./chat-tools.ts";
import { consensus, consensusInput, consensusOutput } from "./consensus.ts";
import { addPrompts, addResources, listInput, listOutput, listResponses } from "./reading.ts";
import { type Answer, errorText, fail, Session } from "./session.ts";

export interface RotundaServerOptions {
  caller: McpCaller;
  era: "legacy" | "modern";
  codec: RequestStateCodec<Pending>;
  version: string;
  /** The bridge's later names (start, resume, status, cancel, query) as well. */
  oldNames?: boolean;
  /** Aborted when everything is about to end. */
  leaving: AbortSignal;
}

const INSTRUCTIONS =
  "Ask other models and agents: `ask` waits for the answer, `ask_async` starts it in the background. Every answer has " +
  "a Response ID that can be gone on from (previousResponseId), with any model. A call that takes long returns its " +
  "Response ID in time: get the answer with `ask_wait`. `list_models` tells who can be asked.";

/** Nothing in a list changes for a minute, and it is nobody's secret. */
const FOR_ALL = { ttlMs: 60_000, cacheScope: "public" } as const;
const FOR_ONE = { ttlMs: 0, cacheScope: "private" } as const;

export function rotundaServer(options: RotundaServerOptions): McpServer {
  const { caller, era, codec, version, leaving } = options;
  const server = new McpServer(
    { name: "rotunda", title: "Rotunda", version },
    {
      instructions: INSTRUCTIONS,
      requestState: { verify: codec.verify },
      cacheHints: { "tools/list": FOR_ALL, "resources/list": FOR_ONE, "resources/templates/list": FOR_ALL },
    },
  );
  const session = new Session({
    caller,
    era,
    codec,
    leaving,
    capabilities: () => server.server.getClientCapabilities() ?? {},
  });
  addAskTools(server, session);
  addChatTools(server, session);
  if (options.oldNames) addOldNames(server, session);
  addResources(server, caller);
  addPrompts(server, caller);
  return server;
}

interface ToolText {
  title: string;
  description: string;
  output?: ZodObject;
  reads?: boolean;
}

type Run<Input> = (given: Input, context: ServerContext) => Promise<Answer>;

/** One tool; whatever it throws becomes a result that says so. */
function add<Input extends ZodObject>(
  server: McpServer,
  name: string,
  { title, description, output, reads = false }: ToolText,
  input: Input,
  run: Run<z.output<Input>>,
  tellError: (given: z.output<Input>, thrown: unknown) => string = (_given, thrown) => errorText(thrown),
): void {
  const annotations = {
    title,
    readOnlyHint: reads,
    openWorldHint: !reads,
    destructiveHint: !reads,
    idempotentHint: reads,
  };
  const config = { title, description, inputSchema: input, annotations, ...(output && { outputSchema: output }) };
  server.registerTool(name, config, (async (given: z.output<Input>, context: ServerContext) => {
    try {
      return await run(given, context);
    } catch (thrown) {
      return fail(tellError(given, thrown));
    }
  }) as never);
}

const taskId = z.object({ taskId: z.string().min(1).max(200).describe("The response id") });

function addAskTools(server: McpServer, session: Session): void {
  const { question, answerSchema: output } = asks;
  add(
    server,
    "ask",
    {
      title: "Ask another model or agent",
      description:
        "Ask any model, agent or profile and wait for the answer. It ends with `Response ID: …`: pass that as previousResponseId to go on, or to branch. A call that takes long returns the Response ID before the answer: then call ask_wait.",
      output,
    },
    question,
    (given, context) => asks.ask(session, given, context),
  );
  add(
    server,
    "ask_async",
    {
      title: "Ask in the background",
      description: "Start a task and return its id at once. It runs on whatever becomes of this client.",
      output,
    },
    question,
    (given) => asks.askAsync(session, given),
  );
  add(
    server,
    "ask_wait",
    {
      title: "Wait for an answer",
      description: "Wait for a task that was started before, up to 50 seconds (more where progress is told).",
      output,
      reads: true,
    },
    taskId.extend({
      timeoutSeconds: z.number().min(0).max(280).optional().describe("Default: as long as this client waits"),
    }),
    (given, context) => asks.askWait(session, given, context),
  );
  add(
    server,
    "ask_status",
    {
      title: "How a task stands",
      description: "Status of a task, and its result once it has ended.",
      output,
      reads: true,
    },
    taskId,
    (given) => asks.askStatus(session, given.taskId),
  );
  add(
    server,
    "ask_cancel",
    { title: "Cancel a task", description: "End a task that runs. What it has said so far is kept.", output },
    taskId,
    (given) => asks.askCancel(session, given.taskId),
  );
  add(
    server,
    "branch",
    {
      title: "Branch from an answer",
      description: "Ask again from an earlier answer, in a conversation of its own: the first one stays as it is.",
      output,
    },
    question.required({ previousResponseId: true }),
    (given, context) => asks.branch(session, given, context),
  );
  add(
    server,
    "consensus",
    {
      title: "Ask several models",
      description:
        "The same question to several models at once, each as a branch of its own, and their answers compared.",
      output: consensusOutput,
    },
    consensusInput,
    (given, context) => consensus(session, given, context),
  );
  add(
    server,
    "list_responses",
    {
      title: "List responses",
      description: "Answers and tasks, newest first, whichever way they were asked for.",
      output: listOutput,
      reads: true,
    },
    listInput,
    (given) => listResponses(session, given),
  );
}

function addChatTools(server: McpServer, session: Session): void {
  add(
    server,
    "chat",
    {
      title: "Chat with Another LLM Model",
      description:
        "Say something to another model. Without a conversationId a conversation begins; with another modelId than before it goes on in a new one, with all that was said.",
      output: chats.chatOutput,
    },
    chats.chatInput,
    (given, context) => chats.chat(session, given, context),
    chats.chatError,
  );
  add(
    server,
    "list_models",
    {
      title: "See Available Models to Talk To",
      description: "Models, agents and profiles that can be asked. The first is the default.",
      output: chats.modelsOutput,
      reads: true,
    },
    z.object({}),
    () => chats.listModels(session),
  );
  add(
    server,
    "conversation_history",
    {
      title: "Review Your Conversation with Another Model",
      description: "What was said in a conversation so far.",
      output: chats.historyOutput,
      reads: true,
    },
    z.object({ conversationId: z.string().min(1).max(200) }),
    (given) => chats.conversationHistory(session, given.conversationId),
    chats.chatError,
  );
}

/** The names that the bridge's tools had in its later versions (parity C11, C12). */
function addOldNames(server: McpServer, session: Session): void {
  const { question, answerSchema: output } = asks;
  const { prompt: _prompt, ...rest } = asks.questionShape;
  const message = z.object({ ...rest, message: z.string().min(1), async: z.boolean().default(true) });
  const text = (description: string) => ({ title: description, description, output });
  const started: Run<z.output<typeof message>> = ({ message: prompt, async: background, ...given }, context) =>
    background ? asks.askAsync(session, { ...given, prompt }) : asks.ask(session, { ...given, prompt }, context);
  add(server, "start", text("Start a task (the name that ask_async once had)"), message, started);
  add(server, "resume", text("Go on from a response"), message.required({ previousResponseId: true }), started);
  add(server, "status", { ...text("How a task stands"), reads: true }, taskId, (given) =>
    asks.askStatus(session, given.taskId),
  );
  add(server, "cancel", text("Cancel a task"), taskId, (given) => asks.askCancel(session, given.taskId));
  const query = question.extend({ async: z.boolean().default(false), sessionId: z.string().max(200).optional() });
  add(
    server,
    "query",
    text("Ask (the name that ask once had)"),
    query,
    ({ async: background, sessionId, ...given }, context) => {
      const asked = { ...given, previousResponseId: given.previousResponseId ?? sessionId };
      return background ? asks.askAsync(session, asked) : asks.ask(session, asked, context);
    },
  );
}
