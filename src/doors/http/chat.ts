/**
 * `POST /v1/chat/completions`.
 *
 * Invariant: as long as nothing of the answer was sent, a failure of the model is an HTTP error; after that it ends
 * the stream with an error object. Never a 200 that says nothing went wrong.
 */
import type { RunEvent } from "../../types/event.ts";
import type { ResponseNode } from "../../types/response.ts";
import { completionObject, failureOf } from "./chat-object.ts";
import { chatRequest } from "./chat-request.ts";
import type { CreateCompletion } from "./chat-schemas.ts";
import { chatFrames } from "./chat-stream.ts";
import type { RequestContext } from "./context.ts";
import { describeError } from "./errors.ts";
import { PROFILE_PREFIX } from "./model-choice.ts";
import { cancelOnLeave, eraseUnstored } from "./responses.ts";
import type { Handler } from "./routes.ts";

/** Milliseconds that a stream waits for the first sign of the answer, so that a failure before it has its status. */
const FIRST_SIGN = 5_000;

export const createCompletion: Handler<CreateCompletion> = async (context, body) => {
  const speakmcp = speaksSpeakmcp(context);
  // What cannot be streamed must not run either.
  if (body.stream) context.reserveStream();
  const release = await context.acquireRun();
  let node: ResponseNode;
  let name: string | undefined;
  try {
    const asked = speakmcp ? await withKnownModel(context, body) : body;
    const { request, conversationName } = await chatRequest(context, asked, speakmcp);
    name = conversationName;
    node = await context.app.engine.start(request);
  } catch (error) {
    release();
    throw error;
  }
  context.accepted = true;
  context.responseId = node.id;
  context.app.engine.wait(node.id).then(release, release);
  const leave = cancelOnLeave(context, node.id);
  try {
    if (speakmcp) {
      const { answerSpeakmcp } = await import("./speakmcp-chat.ts");
      await answerSpeakmcp(context, node, { stream: body.stream === true, name });
    } else if (body.stream) await stream(context, node, body, name);
    else await answer(context, node, name);
  } finally {
    leave();
    if (node.settings.store === false) await eraseUnstored(context, node.id);
  }
};

/** SpeakMCP's clients name the model of their own settings, and its server never looked at it (parity S10). */
async function withKnownModel(context: RequestContext, body: CreateCompletion): Promise<CreateCompletion> {
  const { model, ...rest } = body;
  if (!model || model.startsWith(PROFILE_PREFIX)) return body;
  const known = (await context.app.models()).some(({ id }) => id === model);
  return known ? body : rest;
}

/** By header, or because the token was made so. */
function speaksSpeakmcp({ request, identity }: RequestContext): boolean {
  const header = request.headers["x-rotunda-events"];
  return typeof header === "string" ? header === "speakmcp" : identity.token?.events === "speakmcp";
}

async function answer(context: RequestContext, node: ResponseNode, name: string | undefined): Promise<void> {
  const { engine } = context.app;
  await engine.wait(node.id);
  const response = await engine.get(node.id);
  if (node.settings.store === false) await eraseUnstored(context, node.id);
  context.json(200, { ...completionObject(response), ...conversationField(node, name) });
}

function conversationField({ conversationId }: ResponseNode, name: string | undefined) {
  return conversationId === null ? {} : { conversation_id: name ?? conversationId };
}

async function stream(
  context: RequestContext,
  node: ResponseNode,
  body: CreateCompletion,
  name: string | undefined,
): Promise<void> {
  const { app } = context;
  const events = new FirstSign(app.engine.watch(node.id, -1, context.signal).groups());
  if (!(await events.untilSign())) {
    const now = await app.store.node(node.id);
    const failure = now && (now.endedAt !== null || now.status === "waiting") ? failureOf(now) : undefined;
    if (failure) throw failure;
  }
  await context.stream({
    frames: () =>
      chatFrames(
        {
          app,
          node,
          includeUsage: body.stream_options?.include_usage === true,
          describe: (error) => describeError(error, context).body,
          extra: conversationField(node, name),
        },
        events,
      ),
  });
}

type Groups = AsyncIterator<readonly RunEvent[]>;

/** Events that are looked at before they are told: whoever reads them afterwards gets them from the first on. */
class FirstSign implements AsyncIterable<readonly RunEvent[]> {
  readonly #groups: Groups;
  readonly #seen: ReturnType<Groups["next"]>[] = [];

  constructor(groups: AsyncIterable<readonly RunEvent[]>) {
    this.#groups = groups[Symbol.asyncIterator]();
  }

  /** False: it has ended before it said anything, or still says nothing after a while. */
  async untilSign(): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), FIRST_SIGN);
    });
    try {
      for (;;) {
        const next = this.#groups.next();
        this.#seen.push(next);
        const group = await Promise.race([next, patience]);
        if (!group || group.done) return false;
        if (group.value.some(isSign)) return true;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  [Symbol.asyncIterator](): Groups {
    return {
      next: () => this.#seen.shift() ?? this.#groups.next(),
      return: async () => (await this.#groups.return?.()) ?? { value: undefined, done: true },
    };
  }
}

/** Something that a client of chat completions gets to see. */
function isSign(event: RunEvent): boolean {
  if ("delta" in event) return event.type !== "response.mcp_call_arguments.delta";
  return event.type === "response.output_item.added" && event.item.type === "function_call";
}
