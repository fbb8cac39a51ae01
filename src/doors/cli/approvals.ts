/** Commands about approvals: approvals, approve, deny. */
import type { App } from "../../types/app.ts";
import type { Decision } from "../../types/approval.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { shortId } from "../../util/ids.ts";
import { type Origin, originsOf } from "../../util/origins.ts";
import { outermost } from "../../util/outermost.ts";
import { oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { goOn, type ResumeFlags } from "./responses.ts";

export async function approvals(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const pending = await app.store.approvals({ status: "pending" });
  if (flags.json) {
    context.streams.out(`${JSON.stringify(pending)}\n`);
    return 0;
  }
  if (pending.length === 0) context.streams.err("Nothing waits for an approval.\n");
  const origins = await originsOf(
    app,
    pending.map(({ responseId }) => responseId),
  );
  for (const one of pending) {
    const { out, outStyle } = context.streams;
    out(
      `${outStyle.bold(shortId(one.id))}  ${visible(one.tool)}  (response ${shortId(one.responseId)}: ${visible(one.why)})\n`,
    );
    out(`    ${visible(one.arguments)}\n`);
    const origin = origins.get(one.responseId);
    if (origin) out(`    ${outStyle.dim(visible(originLine(origin)))}\n`);
  }
  return 0;
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
  const top = await outermost(app, settled.responseId);
  const others = (await app.store.approvals({ status: "pending", responseId: settled.responseId })).length;
  if (others > 0) context.streams.err(`${others} more to answer: rotunda approvals\n`);
  if (!flags.resume || others > 0) return 0;
  // Asked in another terminal that still lives, or in a server: there it goes on.
  return goOn(context, app, top, flags, (engine, approver) => engine.goOn(full, approver));
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
