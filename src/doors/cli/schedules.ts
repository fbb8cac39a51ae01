/**
 * `rotunda schedule`: what a server starts by itself.
 *
 * Invariant: it is kept in the database, so it outlives terminal and server; it runs where a server runs.
 */
import { RotundaError } from "../../types/error.ts";
import { LOCAL } from "../../types/response.ts";
import type { Schedule } from "../../types/schedule.ts";
import { checkTimezone, nextMoment } from "../../util/cron.ts";
import { delayOf } from "../../util/duration.ts";
import { newId, shortId } from "../../util/ids.ts";
import { readServerFile } from "../../util/server-file.ts";
import { oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

export interface ScheduleFlags {
  cron?: string;
  at?: string;
  in?: string;
  timezone?: string;
  agent?: string;
  model?: string;
  conversation?: string;
  json?: boolean;
}

export async function scheduleList(context: CommandContext, flags: { json?: boolean }): Promise<number> {
  const app = await context.app();
  const all = await app.store.schedules();
  const { out, err } = context.streams;
  if (flags.json) out(`${JSON.stringify(all)}\n`);
  else if (all.length === 0)
    err('Nothing is scheduled. For example: rotunda schedule add brief --cron "0 7 * * 1-5" "What is new?"\n');
  else for (const schedule of all) out(`${lineOf(schedule)}\n`);
  if (all.length > 0 && !readServerFile(app.stateDirectory)) err("No server runs here: rotunda start\n");
  return 0;
}

function lineOf({ name, cron, enabled, nextAt, request, lastResponseId, error }: Schedule): string {
  const due = nextAt === null ? (error === null ? "over" : "never") : new Date(nextAt).toISOString();
  const next = enabled ? due : "off";
  const last = lastResponseId === null ? "" : `  last ${shortId(lastResponseId)}`;
  const why = error === null ? "" : `  could not be started: ${oneLine(error, 140)}`;
  return visible(`${name}  ${cron ?? "once"}  ${next}${last}${why}  "${oneLine(request.input, 50)}"`);
}

export async function scheduleAdd(
  context: CommandContext,
  name: string,
  words: readonly string[],
  flags: ScheduleFlags,
): Promise<number> {
  const app = await context.app();
  const now = Date.now();
  const input = words.join(" ").trim();
  if (input === "") throw new RotundaError("usage", "what is to be asked?");
  if ((await app.store.schedules()).some((one) => one.name === name && one.owner === LOCAL))
    throw new RotundaError("usage", `there is a schedule named ${name} already`, {
      remedy: `rotunda schedule remove ${name}`,
    });
  const profile = await app.profile(flags.agent);
  const { timezone, model, conversation } = flags;
  const schedule: Schedule = {
    id: newId("sched", now),
    owner: LOCAL,
    name,
    ...(flags.cron !== undefined && { cron: flags.cron }),
    ...(timezone !== undefined && { timezone }),
    request: {
      input,
      profile: profile.name,
      ...(model !== undefined && { model }),
      ...(conversation !== undefined && { conversation }),
      workspace: context.workspace,
    },
    enabled: true,
    nextAt: await momentOf(flags, now),
    lastResponseId: null,
    lastAt: null,
    error: null,
    createdAt: now,
  };
  await app.store.saveSchedule(schedule);
  const { out, err } = context.streams;
  if (flags.json) out(`${JSON.stringify(schedule)}\n`);
  else err(`${lineOf(schedule)}\n`);
  if (!readServerFile(app.stateDirectory)) err("It is started by a server, and none runs here: rotunda start\n");
  return 0;
}

async function momentOf(flags: ScheduleFlags, now: number): Promise<number | null> {
  const given = (["cron", "at", "in"] as const).filter((one) => flags[one] !== undefined).map((one) => `--${one}`);
  if (given.length === 0) throw new RotundaError("usage", "when? Give one of --cron, --at and --in");
  if (given.length > 1) throw new RotundaError("usage", `only one of ${given.join(" and ")} can be given`);
  if (flags.timezone !== undefined) checkTimezone(flags.timezone);
  if (flags.cron !== undefined) return nextMoment(flags.cron, flags.timezone, now);
  const moment = flags.at === undefined ? now + (delayOf(flags.in ?? "") ?? Number.NaN) : Date.parse(flags.at);
  if (Number.isFinite(moment)) return moment;
  throw new RotundaError("usage", `${JSON.stringify(flags.at ?? flags.in)} is no time`, {
    remedy: "--at 2030-01-31T07:00:00Z, or --in 30s, 90m, 12h, 2d",
  });
}

export async function scheduleRemove(context: CommandContext, name: string): Promise<number> {
  const app = await context.app();
  const all = (await app.store.schedules()).filter((one) => one.name === name || one.id === name);
  // Owners have names of their own: one's own comes first.
  const found = all.find(({ owner }) => owner === LOCAL) ?? all[0];
  if (!found) throw new RotundaError("not_found", `there is no schedule ${name}`);
  if (found.configured) throw new RotundaError("usage", `${name} stands in a configuration file: remove it there`);
  await app.store.removeSchedule(found.id);
  context.streams.err(`Removed: ${visible(name)}\n`);
  return 0;
}
