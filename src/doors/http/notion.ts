/** notion-open-agent's `POST /chat` (parity N4): a message in, an answer out. */
import { answerText, failureOf } from "./chat-object.ts";
import { chatRequest } from "./chat-request.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { cancelOnLeave, eraseUnstored } from "./responses.ts";
import type { Handler } from "./routes.ts";
import type { NotionChat } from "./speakmcp-schemas.ts";

export const notionChat: Handler<NotionChat> = async (context, body) => {
  const { message, history = [], conversation, model } = body;
  if (typeof message !== "string" || message.trim() === "") throw new DoorError("usage", "message is required");
  const messages = [...history, { role: "user", content: message }];
  const release = await context.acquireRun();
  try {
    const asked = { messages, ...(model && { model }), ...(conversation && { conversation_id: conversation }) };
    const { request, conversationName } = await chatRequest(context, asked, false);
    const node = await context.app.engine.start(request);
    context.accepted = true;
    context.responseId = node.id;
    await finish(context, node.id, conversationName ?? node.conversationId ?? undefined);
  } finally {
    release();
  }
};

async function finish(context: RequestContext, id: string, conversation: string | undefined): Promise<void> {
  const { engine } = context.app;
  const leave = cancelOnLeave(context, id);
  try {
    await engine.wait(id);
    const response = await engine.get(id);
    const failure = failureOf(response);
    if (failure) throw failure;
    const text = answerText(response);
    context.json(200, { response: text, response_id: id, ...(conversation !== undefined && { conversation }) });
  } finally {
    leave();
    await eraseUnstored(context, id);
  }
}
