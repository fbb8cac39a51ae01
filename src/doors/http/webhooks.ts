/**
 * Webhooks: what an event looks like on the wire, its signature, and one attempt to deliver it.
 *
 * Form: that of Standard Webhooks, as OpenAI sends it, so that `client.webhooks.unwrap` of its SDK takes it. Headers
 * `webhook-id`, `webhook-timestamp` (seconds), `webhook-signature` (`v1,` and the base64 of HMAC-SHA256 over
 * `id.timestamp.body`).
 *
 * Invariant: an attempt ends within ten seconds, follows no redirect, and tells nothing of the answer but its status.
 * The addresses are the operator's own configuration: private ones are allowed.
 */
import { createHmac, hash } from "node:crypto";
import type { ServerSettings, WebhookConfig } from "../../types/config.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { type OutboxEvent, outboxEvents, type Subscription } from "../../types/outbox.ts";
import { nodeHttp } from "../../util/node-http.ts";

/** What became of an attempt. `after`: seconds that the other side asks us to wait. */
export type Outcome = { done: true } | { done: false; why: string; again: boolean; after?: number };

/** Somebody who is told: a webhook, or the notify command. */
export interface Target extends Subscription {
  /** For the log: no secret, and of an address only its host. */
  name: string;
  /** Never rejects. `signal` gives the attempt up. */
  deliver(event: OutboxEvent, signal: AbortSignal): Promise<Outcome>;
}

/** Milliseconds. */
const TIME_OUT = 10_000;
/** Bytes of an answer that are read, so that its connection can be used again. */
const ANSWER = 65_536;

/** The JSON of an event, the same at every attempt. */
export function eventBody(event: OutboxEvent): string {
  const { id, type, at, approvals, error } = event;
  return JSON.stringify({
    id,
    object: "event",
    type,
    created_at: Math.floor(at / 1_000),
    data: {
      id: event.responseId,
      object: "response",
      status: event.status,
      conversation_id: event.conversationId,
      profile: event.profile,
      model: event.model,
      door: event.door,
      owner: event.owner,
      error: error && { code: error.code, message: error.message },
      incomplete_reason: event.incompleteReason,
      approval_ids: approvals.map((approval) => approval.id),
      approvals: approvals.map(({ id: approvalId, responseId, tool }) => ({
        id: approvalId,
        response_id: responseId,
        tool,
      })),
    },
  });
}

/** `timestamp` in seconds. */
function signatureOf(secret: string, id: string, timestamp: number, body: string): string {
  return `v1,${createHmac("sha256", keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}

/** `whsec_` and base64, or any other text as it is. */
function keyOf(secret: string): Buffer {
  return secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : Buffer.from(secret, "utf8");
}

/** Throws `config_invalid` where a webhook could never work. */
export function webhookTargets({ webhooks }: Pick<ServerSettings, "webhooks">, version: string): Target[] {
  const targets = new Map<string, Target>();
  for (const [index, webhook] of webhooks.entries()) {
    const { url, events } = checked(webhook, `server.webhooks[${index}]`);
    const target = hash("sha256", `webhook\n${url.href}`);
    if (targets.has(target))
      throw new RotundaError("config_invalid", `server.webhooks[${index}]: ${url.host} stands there twice`);
    const sender = { url, secret: webhook.secret, version };
    targets.set(target, {
      target,
      events,
      name: `webhook ${url.host}`,
      deliver: (event, signal) => deliver(sender, event, signal),
    });
  }
  return [...targets.values()];
}

function checked({ url: text, secret, events }: WebhookConfig, where: string) {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "https:" && url.protocol !== "http:"))
    throw new RotundaError("config_invalid", `${where}.url is no http address`);
  if (keyOf(secret).length === 0) throw new RotundaError("config_invalid", `${where}.secret is empty`);
  const known = events && outboxEvents.filter((name) => events.includes(name));
  return { url, events: known ?? null };
}

interface Sender {
  url: URL;
  secret: string;
  version: string;
}

async function deliver({ url, secret, version }: Sender, event: OutboxEvent, stop: AbortSignal): Promise<Outcome> {
  const body = eventBody(event);
  const timestamp = Math.floor(Date.now() / 1_000);
  const headers = {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "user-agent": `rotunda/${version}`,
    "webhook-id": event.id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signatureOf(secret, event.id, timestamp, body),
  };
  const timer = AbortSignal.timeout(TIME_OUT);
  try {
    const { status, retryAfter } = await post(url, headers, body, AbortSignal.any([timer, stop]));
    return outcomeOf(status, retryAfter);
  } catch (thrown) {
    const why = timer.aborted ? "no answer within 10 seconds" : reasonOf(thrown);
    return { done: false, why, again: true };
  }
}

/** A code where there is one: a message could hold the address. */
function reasonOf(thrown: unknown): string {
  const { code } = thrown as NodeJS.ErrnoException;
  return typeof code === "string" ? code : toRotundaError(thrown).message;
}

function outcomeOf(status: number, retryAfter: string | undefined): Outcome {
  if (status >= 200 && status < 300) return { done: true };
  const why = status >= 300 && status < 400 ? `${status}: redirects are not followed` : `answered ${status}`;
  // "Gone": whoever was there wants to hear nothing more of it.
  if (status === 410) return { done: false, why, again: false };
  const seconds = Number(retryAfter);
  return { done: false, why, again: true, ...(seconds > 0 && { after: Math.min(seconds, 86_400) }) };
}

function post(
  url: URL,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal,
): Promise<{ status: number; retryAfter: string | undefined }> {
  const client = url.protocol === "https:" ? process.getBuiltinModule("node:https") : nodeHttp();
  return new Promise((resolve, reject) => {
    const request = client.request(url, { method: "POST", headers, signal }, (response) => {
      const { statusCode: status = 0, headers: answered } = response;
      const done = () => resolve({ status, retryAfter: answered["retry-after"] });
      let size = 0;
      response.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > ANSWER) response.destroy();
      });
      // The status is the answer, however its body ends.
      response.on("end", done).on("error", done).on("close", done);
    });
    request.on("error", reject);
    request.end(body);
  });
}
