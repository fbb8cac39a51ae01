/**
 * Remote: a turn of the command line runs in the server of this machine, if there is one that can.
 *
 * Invariant: both work on the same database, so only the start goes over the wire; everything else (watch, wait,
 * decide, cancel) is what it always was. Where the server cannot or will not run it, it runs here.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import type { Approval } from "../../types/approval.ts";
import type { Elicitation, ElicitationAnswer } from "../../types/elicitation.ts";
import type { Approver, RunRequest } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import { configFingerprint, databaseFingerprint } from "../../util/fingerprint.ts";
import { readLocalToken } from "../../util/local-token.ts";
import { nodeHttp } from "../../util/node-http.ts";
import { outermost } from "../../util/outermost.ts";
import { readServerFile } from "../../util/server-file.ts";

/** Milliseconds for the server to have stored the turn. */
const PATIENCE = 10_000;

/** Starts a turn in the running server; undefined where there is none, or it has another configuration. */
export async function startInServer(app: App, request: RunRequest): Promise<ResponseNode | undefined> {
  const server = readServerFile(app.stateDirectory);
  const token = server && readLocalToken(app.stateDirectory);
  if (!server || token === undefined) return undefined;
  // Here nobody would find it.
  if (server.database !== databaseFingerprint(app.config.database)) return undefined;
  const { input, workspace, previousResponseId, conversation, conversationName, profile, model, settings } = request;
  const { door, queue, idempotency } = request;
  const body = {
    input,
    workspace,
    settings: settings ?? {},
    fingerprint: configFingerprint(app.config),
    door,
    interactive: request.approver !== undefined,
    ...(queue && { queue }),
    ...(idempotency && { idempotency }),
    ...(settings?.configuration !== undefined && { configuration: settings.configuration }),
    ...(previousResponseId !== undefined && { previousResponseId }),
    ...(conversation !== undefined && { conversation }),
    ...(conversationName !== undefined && { conversationName }),
    ...(profile !== undefined && { profile }),
    ...(model !== undefined && { model }),
  };
  const answer = await post(new URL("/rotunda/runs", server.url), token, JSON.stringify(body));
  if (!answer) return undefined;
  if (answer.status !== 200) return refused(answer);
  const { id } = JSON.parse(answer.text) as { id: string };
  const node = await app.store.node(id);
  if (!node) throw new RotundaError("internal", "the server runs on another database than this command");
  if (request.approver) answerHere(app, id, request.approver);
  request.onStart?.(id);
  return node;
}

/** A mistake in the request is a mistake wherever it runs; whatever is the server's own affair is not ours. */
function refused({ status, text }: Answer): undefined {
  const { error } = JSON.parse(text) as { error?: { code?: string; message?: string } };
  const mine = ["model_not_found", "profile_not_found", "not_found", "response_not_ended", "usage"] as const;
  const code = mine.find((one) => one === error?.code);
  if (code !== undefined && status < 500) throw new RotundaError(code, error?.message ?? "the server refused it");
  return undefined;
}

interface Answer {
  status: number;
  text: string;
}

/** Posts to the server of this machine. Undefined where there is none, or it refuses. */
export async function postToServer(stateDirectory: string, path: string, body: object): Promise<Answer | undefined> {
  const server = readServerFile(stateDirectory);
  const token = server && readLocalToken(stateDirectory);
  if (!server || token === undefined) return undefined;
  const answer = await post(new URL(path, server.url), token, JSON.stringify(body));
  return answer && answer.status < 300 ? answer : undefined;
}

/** Questions of MCP servers to runs in the server of this machine. Empty where there is none, or it does not answer. */
export async function questionsInServer({ stateDirectory }: App): Promise<Elicitation[]> {
  const server = readServerFile(stateDirectory);
  const token = server && readLocalToken(stateDirectory);
  if (!server || token === undefined) return [];
  const asking = post(new URL("/v1/elicitation/pending", server.url), token, undefined);
  const answer = await asking.catch(() => undefined);
  if (answer?.status !== 200) return [];
  return (JSON.parse(answer.text) as { elicitations: Elicitation[] }).elicitations;
}

/** Throws `not_found` where nobody asks that any more, `usage` where the content does not fit. */
export async function answerInServer(app: App, id: string, answer: ElicitationAnswer): Promise<void> {
  const server = readServerFile(app.stateDirectory);
  const token = server && readLocalToken(app.stateDirectory);
  if (!server || token === undefined) throw new RotundaError("not_found", "the server that asked has gone");
  const url = new URL(`/v1/elicitation/${encodeURIComponent(id)}/resolve`, server.url);
  const taken = await post(url, token, JSON.stringify(answer));
  if (taken && taken.status < 300) return;
  const { error } = JSON.parse(taken?.text || "{}") as { error?: { message?: string } | string };
  const said = typeof error === "string" ? error : error?.message;
  throw new RotundaError(taken?.status === 400 ? "usage" : "not_found", said ?? "the question is over");
}

/** Undefined where nobody answers. A turn that may have been accepted is never posted elsewhere. */
function post(url: URL, token: string, body: string | undefined): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body ?? ""),
    };
    const outgoing = nodeHttp().request(url, { method, headers, timeout: PATIENCE }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      response.on("error", reject);
    });
    outgoing.on("timeout", () => outgoing.destroy(new Error("the server does not answer")));
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED") resolve(undefined);
      else reject(new RotundaError("internal", `the server did not take the turn: ${error.message}`));
    });
    outgoing.end(body);
  });
}

/** Milliseconds between two looks for questions. */
const LOOK = 200;

/** The person at this terminal is asked what the run in the server, or a sub-agent of it, asks. */
function answerHere(app: App, id: string, approver: Approver): void {
  const asked = new Set<string>();
  const follow = async () => {
    for (;;) {
      const node = await app.store.node(id);
      if (!node || node.endedAt !== null) return;
      for (const approval of await app.store.approvals({ status: "pending" })) {
        if (asked.has(approval.id) || (await outermost(app, approval.responseId)) !== id) continue;
        asked.add(approval.id);
        await askHere(app, approval, approver);
      }
      await sleep(LOOK, undefined, { ref: false });
    }
  };
  follow().catch(() => undefined);
}

async function askHere(app: App, approval: Approval, approver: Approver): Promise<void> {
  const aside = new AbortController();
  // Answered at another door in the meantime: the question at this one is taken back.
  const timer = setInterval(() => {
    app.store.approval(approval.id).then(
      (now) => now?.status !== "pending" && aside.abort(),
      () => undefined,
    );
  }, LOOK);
  timer.unref();
  try {
    await app.engine.decide(approval.id, await approver(approval, aside.signal));
  } catch {
    // Somebody else was quicker, or nobody is there: then it stays open.
  } finally {
    clearInterval(timer);
  }
}
