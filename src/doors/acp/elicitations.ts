/**
 * Questions of MCP servers, to the person at the editor.
 *
 * Invariant: a question goes to the session that it belongs to, or to none; a link is only ever shown; what nobody
 * answers here can be answered at every other door until its time is over.
 */
import type { AgentContext, CreateElicitationRequest } from "@agentclientprotocol/sdk/unstable";
import type { App } from "../../types/app.ts";
import type { Elicitation, ElicitationAnswer } from "../../types/elicitation.ts";
import type { Features } from "./session.ts";
import type { Sessions } from "./sessions.ts";

/** Milliseconds between two looks whether a question is still open. */
const LOOK = 250;

/** Where the client can show none, servers of this app are told that nobody can be asked. */
export function answerElicitations(app: App, client: AgentContext, features: Features, sessions: Sessions): void {
  if (!features.elicitationForm && !features.elicitationUrl) return;
  app.onElicitation((elicitation) => {
    const session = sessions.running(elicitation.responseIds ?? []) ?? sessions.onlyOf(app);
    const request = session && requestOf(elicitation, session.id, features);
    if (!request) return;
    const gone = new AbortController();
    // Answered at another door, or out of time: the question at this one is taken back.
    const timer = setInterval(() => {
      if (!app.elicitations().some(({ id }) => id === elicitation.id)) gone.abort();
    }, LOOK);
    timer.unref();
    ask(app, client, elicitation, request, gone.signal)
      .catch(() => undefined)
      .finally(() => clearInterval(timer));
  });
}

function requestOf(
  { id, mode, message, requestedSchema, url, server }: Elicitation,
  sessionId: string,
  features: Features,
): CreateElicitationRequest | undefined {
  const text = `${server}: ${message}`;
  if (mode === "url") {
    if (!features.elicitationUrl || url === null) return undefined;
    return { mode: "url", sessionId, elicitationId: id, message: text, url };
  }
  if (!features.elicitationForm || requestedSchema === null) return undefined;
  // Both protocols have the same forms: an object of primitive properties.
  return { mode: "form", sessionId, message: text, requestedSchema } as CreateElicitationRequest;
}

async function ask(
  app: App,
  client: AgentContext,
  { id }: Elicitation,
  request: CreateElicitationRequest,
  signal: AbortSignal,
): Promise<void> {
  const options = { cancellationSignal: signal, stopWaitingOnCancel: true };
  const answer = await client.request("elicitation/create", request, options);
  app.answerElicitation(id, answerOf(answer));
}

function answerOf({ action, ...rest }: { action: string; [key: string]: unknown }): ElicitationAnswer {
  if (action === "accept") {
    const { content } = rest as Pick<ElicitationAnswer, "content">;
    return { action, ...(content && { content }) };
  }
  return { action: action === "decline" ? "decline" : "cancel" };
}
