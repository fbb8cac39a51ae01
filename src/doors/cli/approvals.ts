/** Commands about approvals: approvals, approve, deny. */
import type { App } from "../../types/app.ts";
import type { Approval, Decision } from "../../types/approval.ts";
import type { Elicitation } from "../../types/elicitation.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { shortId } from "../../util/ids.ts";
import { type Origin, originsOf } from "../../util/origins.ts";
import { outermost } from "../../util/outermost.ts";
import { oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { questionsInServer } from "./remote.ts";
import { goOn, type ResumeFlags } from "./responses.ts";
import type { Style } from "./style.ts";

export async function approvals(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const pending = await app.store.approvals({ status: "pending" });
  const questions = await questionsInServer(app).catch(() => []);
  const { out, err, outStyle } = context.streams;
  if (flags.json) {
    const asked = questions.map((one) => ({ kind: "elicitation", ...one }));
    out(`${JSON.stringify([...pending.map((one) => ({ kind: "approval", ...one })), ...asked])}\n`);
    return 0;
  }
  if (pending.length + questions.length === 0) err("Nothing waits for an approval.\n");
  const origins = await originsOf(
    app,
    pending.map(({ responseId }) => responseId),
  );
  for (const one of pending) {
    out(
      `${outStyle.bold(shortId(one.id))}  ${visible(one.tool)}  (response ${shortId(one.responseId)}: ${visible(one.why)})\n`,
    );
    out(`    ${visible(one.arguments)}\n`);
    if (isNarrow(one.pattern))
      out(`    ${outStyle.dim(`--scope session or always allows: ${visible(one.pattern)}`)}\n`);
    const origin = origins.get(one.responseId);
    if (origin) out(`    ${outStyle.dim(visible(originLine(origin)))}\n`);
  }
  for (const one of questions) out(questionText(one, outStyle));
  return 0;
}

/** Where nothing narrow can be learned from an answer, it is for this call only. */
function isNarrow(pattern: string): boolean {
  return !pattern.endsWith("()");
}

/** An MCP server's question: it is no yes or no, so it is answered where there is a form. */
function questionText({ id, server, message, mode, url, requestedSchema }: Elicitation, style: Style): string {
  const { properties } = requestedSchema ?? {};
  const fields = typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  const wanted = mode === "url" ? `open ${url ?? ""}` : `wants: ${fields.join(", ")}`;
  const where = `rotunda open (Approvals), the screen of rotunda chat, or POST /v1/elicitation/${id}/resolve`;
  return [
    `${style.bold(shortId(id))}  MCP server ${visible(server)} asks: ${visible(oneLine(message, 300))}`,
    `    ${visible(wanted)}`,
    `    ${style.dim(`answer it at: ${where}`)}`,
    "",
  ].join("\n");
}

/** What a person asked, and where: whoever answers wants to know whose question it is. */
function originLine({ prompt, workspace, door }: Origin): string {
  return `${prompt ? `asked: ${oneLine(prompt, 80)}  ` : ""}in ${workspace}, at ${door}`;
}

export interface DecideFlags extends ResumeFlags {
  scope: "once" | "session" | "always";
  reason?: string;
  /** False: only answer, do not go on in this process. */
  resume: boolean;
}

/** Answers, and goes on with the run here unless a living process already does. */
export async function decide(
  context: CommandContext,
  id: string,
  decision: Decision["decision"],
  flags: DecideFlags,
): Promise<number> {
  const app = await context.app();
  const full = await app.engine.resolveId(id, "approval");
  const { reason, scope } = flags;
  const answer = { decision, scope, by: "cli", ...(reason !== undefined && { reason }) };
  const settled = await app.engine.decide(full, answer).catch(async (thrown: unknown) => {
    throw await withAnswer(app, full, thrown);
  });
  context.streams.err(`${settled.status}: ${visible(settled.tool)} ${visible(oneLine(settled.arguments, 120))}\n`);
  if (scope !== "once") await tellLearned(context, app, settled);
  const top = await outermost(app, settled.responseId);
  const others = (await app.store.approvals({ status: "pending", responseId: settled.responseId })).length;
  if (others > 0) context.streams.err(`${others} more to answer: rotunda approvals\n`);
  if (!flags.resume || others > 0) return 0;
  // Asked in another terminal that still lives, or in a server: there it goes on.
  return goOn(context, app, top, flags, (engine, approver) => engine.goOn(full, approver));
}

/** The rule that came of an answer, how far it reaches, and how it is taken back. */
async function tellLearned({ streams: { err } }: CommandContext, app: App, settled: Approval): Promise<void> {
  const { status, pattern, decidedAt } = settled;
  if (status !== "allowed") return void err("A refusal reaches no further than this call.\n");
  if (!isNarrow(pattern)) return void err("Nothing narrow could be learned of it: it is allowed this once.\n");
  const rule = (await app.store.rules()).findLast((one) => one.rule === pattern && one.createdAt === decidedAt);
  if (!rule) return;
  const reach = rule.scope === "always" ? `always in ${rule.holder}` : "for the rest of this conversation";
  err(visible(`learned: ${rule.rule}, ${reach}\n  take it back: rotunda permissions list --forget ${rule.id}\n`));
}

/** Whoever comes second wants to know what the first one said. */
async function withAnswer(app: App, id: string, thrown: unknown): Promise<unknown> {
  if (toRotundaError(thrown).code !== "approval_settled") return thrown;
  const approval = await app.store.approval(id);
  if (!approval) return thrown;
  const { status, decidedBy, decidedAt, tool, reason } = approval;
  const by = decidedBy === null ? "" : ` by ${visible(decidedBy)}`;
  const at = decidedAt === null ? "" : `, ${new Date(decidedAt).toISOString()}`;
  const why = reason === null ? "" : `: ${oneLine(reason, 200)}`;
  return new RotundaError(
    "approval_settled",
    `${shortId(id)} (${tool}) has already been answered: ${status}${by}${at}${why}`,
  );
}
