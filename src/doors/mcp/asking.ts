/**
 * Asking: an approval is put to the person at the client, where the client can do that.
 *
 * Invariant: the person sees the tool and the canonical arguments, invisible characters made visible; only a clear yes
 * is one. What the model could have answered is no answer: it comes as an elicitation, which clients show to people.
 */
import {
  type InputRequiredResult,
  inputRequired,
  type RequestStateCodec,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { App } from "../../types/app.ts";
import type { Approval, Decision } from "../../types/approval.ts";
import { toRotundaError } from "../../types/error.ts";
import { isJsonObject } from "../../types/json.ts";
import type { McpCaller } from "../../types/mcp.ts";
import { visible } from "../../util/text.ts";

/** Puts one question within a time (milliseconds). "comes again": the client is to ask, and to send its request anew. */
export type Asking = (approval: Approval, within: number) => Promise<"answered" | "stays open" | "comes again">;

/** What goes to the client and back with a question, signed. */
export interface Pending {
  responseId: string;
  approvalId: string;
}

const CHOICES = ["allow once", "allow for this conversation", "deny"] as const;

export function formOf(approval: Approval) {
  const { tool, why, arguments: text } = approval;
  const shown = visible(text.length > 4_000 ? `${text.slice(0, 4_000)} … (${text.length} characters)` : text);
  return {
    message: `The agent wants to call ${visible(tool)} with ${shown}\n(${visible(why)})`,
    requestedSchema: {
      type: "object" as const,
      properties: {
        decision: { type: "string" as const, title: "Decision", enum: [...CHOICES] },
        reason: { type: "string" as const, title: "Reason for a denial", description: "The agent is told" },
      },
      required: ["decision"],
    },
  };
}

/** Undefined where the person gave no answer. */
export function decisionOf(answer: unknown): Decision | undefined {
  if (!isJsonObject(answer)) return undefined;
  const by = { by: "mcp", door: "mcp" };
  if (answer.action === "decline") return { decision: "deny", ...by };
  if (answer.action !== "accept" || !isJsonObject(answer.content)) return undefined;
  const { decision, reason } = answer.content;
  if (decision === CHOICES[0]) return { decision: "allow", scope: "once", ...by };
  if (decision === CHOICES[1]) return { decision: "allow", scope: "session", ...by };
  if (decision !== CHOICES[2]) return undefined;
  return { decision: "deny", ...by, ...(typeof reason === "string" && reason !== "" && { reason }) };
}

export async function settle(caller: McpCaller, approval: Approval, decision: Decision): Promise<void> {
  try {
    await caller.decide(approval, decision);
  } catch (error) {
    // Another door was quicker: what it answered holds.
    const { code } = toRotundaError(error);
    if (code !== "approval_settled" && code !== "approval_expired") throw error;
  }
}

export interface AskingOptions {
  caller: McpCaller;
  context: ServerContext;
  era: "legacy" | "modern";
  /** The capabilities that the client has declared. */
  capabilities: Record<string, unknown>;
}

/** Undefined where the client cannot ask, or may not answer. */
export function askingOf({ caller, context, era, capabilities }: AskingOptions): Asking | undefined {
  const { elicitation } = capabilities;
  // A client that names no mode can do forms (MCP 2025-06-18).
  const forms = isJsonObject(elicitation) && (elicitation.form !== undefined || Object.keys(elicitation).length === 0);
  if (!forms || !caller.may("approve")) return undefined;
  if (era === "modern") return async () => "comes again";
  return async (approval, within) => {
    const { message, requestedSchema } = formOf(approval);
    const timeout = Math.max(1_000, within);
    const { signal } = context.mcpReq;
    const answer = await context.mcpReq
      .elicitInput({ message, requestedSchema }, { timeout, signal })
      .catch(() => undefined);
    const decision = decisionOf(answer);
    if (!decision) return "stays open";
    await settle(caller, approval, decision);
    return "answered";
  };
}

const QUESTION = "approval";

/** The result that has the client ask, and come again. */
export async function askAgain(
  codec: RequestStateCodec<Pending>,
  approval: Approval,
  responseId: string,
  context: ServerContext,
): Promise<InputRequiredResult> {
  return inputRequired({
    inputRequests: { [QUESTION]: inputRequired.elicit(formOf(approval)) },
    requestState: await codec.mint({ responseId, approvalId: approval.id }, context),
  });
}

/** What a request that was sent again has brought. */
export interface Return {
  responseId: string;
  /** The person was asked and gave no answer: nobody is asked once more. */
  unanswered: boolean;
}

/** Undefined: the request comes for the first time. */
export async function cameAgain(app: App, caller: McpCaller, context: ServerContext): Promise<Return | undefined> {
  const pending = context.mcpReq.requestState<Pending>();
  if (!pending) return undefined;
  const decision = decisionOf(context.mcpReq.inputResponses?.[QUESTION]);
  const approval = decision && (await app.store.approval(pending.approvalId));
  if (approval?.status === "pending" && decision) await settle(caller, approval, decision);
  return { responseId: pending.responseId, unanswered: decision === undefined };
}
