/**
 * Schedules over HTTP.
 *
 * Invariant: another owner's schedule is as unknown as none; one that stands in a configuration file is changed there.
 */
import { RotundaError } from "../../types/error.ts";
import type { Schedule } from "../../types/schedule.ts";
import { nextMoment } from "../../util/cron.ts";
import { newId } from "../../util/ids.ts";
import type { RequestContext } from "./context.ts";
import { chooseModel } from "./model-choice.ts";
import type { Handler } from "./routes.ts";
import type { ScheduleChange, ScheduleToMake } from "./schedules-schemas.ts";

function wire(schedule: Schedule) {
  const { id, name, cron, timezone, request, enabled, nextAt, lastAt, lastResponseId, error, configured } = schedule;
  const moment = (at: number | null) => (at === null ? null : new Date(at).toISOString());
  return {
    id,
    object: "schedule",
    name,
    cron: cron ?? null,
    timezone: timezone ?? "UTC",
    input: request.input,
    profile: request.profile ?? null,
    model: request.model ?? null,
    conversation: request.conversation ?? null,
    enabled,
    next_at: moment(enabled ? nextAt : null),
    last_at: moment(lastAt),
    last_response_id: lastResponseId,
    error,
    configured: configured === true,
  };
}

async function own({ app, identity }: RequestContext): Promise<Schedule[]> {
  return (await app.store.schedules()).filter(({ owner }) => identity.local || owner === identity.owner);
}

async function named(context: RequestContext): Promise<Schedule> {
  const { id = "" } = context.params;
  const found = (await own(context)).find((schedule) => schedule.id === id);
  if (!found) throw new RotundaError("not_found", `there is no schedule ${id}`);
  return found;
}

/** Throws `usage` for one of a configuration file. */
async function changeable(context: RequestContext): Promise<Schedule> {
  const found = await named(context);
  if (found.configured)
    throw new RotundaError("usage", "this schedule stands in a configuration file: change it there");
  return found;
}

/** Schedules of one token. */
const MOST = 100;

export const listSchedules: Handler = async (context) => {
  context.json(200, { object: "list", data: (await own(context)).map(wire) });
};

export const getSchedule: Handler = async (context) => context.json(200, wire(await named(context)));

export const makeSchedule: Handler<ScheduleToMake> = async (context, body) => {
  const { app, identity, services } = context;
  const { profile, model } = await chooseModel(context, body.model);
  const now = Date.now();
  const { cron, at, delay, timezone, conversation } = body;
  const existing = (await own(context)).filter(({ owner }) => owner === identity.owner);
  if (!identity.local && existing.length >= MOST) {
    throw new RotundaError("rate_limited", `a token may have ${MOST} schedules`);
  }
  if (existing.some(({ name }) => name === body.name))
    throw new RotundaError("usage", `there is a schedule named ${body.name} already`);
  const once = at === undefined ? now + (delay ?? 0) * 1_000 : Date.parse(at);
  const schedule: Schedule = {
    id: newId("sched", now),
    owner: identity.owner,
    name: body.name,
    ...(cron !== undefined && { cron }),
    ...(timezone !== undefined && { timezone }),
    request: {
      input: body.input,
      profile: profile.name,
      ...(model !== undefined && { model }),
      ...(conversation !== undefined && { conversation }),
      workspace: services.workspace,
    },
    enabled: body.enabled !== false,
    nextAt: cron === undefined ? once : await nextMoment(cron, timezone, now),
    lastResponseId: null,
    lastAt: null,
    error: null,
    createdAt: now,
  };
  await app.store.saveSchedule(schedule);
  context.json(200, wire(schedule));
};

export const changeSchedule: Handler<ScheduleChange> = async (context, body) => {
  const before = await changeable(context);
  const {
    cron = before.cron,
    timezone = before.timezone,
    input = before.request.input,
    enabled = before.enabled,
  } = body;
  const again = cron !== undefined && (body.cron ?? body.timezone ?? body.enabled) !== undefined;
  const schedule: Schedule = {
    ...before,
    ...(cron !== undefined && { cron }),
    ...(timezone !== undefined && { timezone }),
    request: { ...before.request, input },
    enabled,
    // One that was switched off does not make up for what it has missed.
    nextAt: again ? await nextMoment(cron, timezone) : before.nextAt,
  };
  await context.app.store.saveSchedule(schedule);
  context.json(200, wire(schedule));
};

export const removeSchedule: Handler = async (context) => {
  const { id } = await changeable(context);
  await context.app.store.removeSchedule(id);
  context.json(200, { id, object: "schedule.deleted", deleted: true });
};
