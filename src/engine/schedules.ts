/**
 * Schedules: what is due is started.
 *
 * Invariant: a moment that is due starts one response: its idempotency key names schedule and moment, so that a server
 * that died in between, or another one at the same time, finds what was started. One that could not be started for a
 * reason that passes stays due.
 */
import type { RunRequest } from "../types/engine.ts";
import { errorTable, toRotundaError } from "../types/error.ts";
import { LOCAL, type ResponseNode } from "../types/response.ts";
import type { Schedule, ScheduleConfig } from "../types/schedule.ts";
import type { Store } from "../types/store.ts";
import { nextMoment } from "../util/cron.ts";
import { newId } from "../util/ids.ts";

/** Starts what is due at `now` (milliseconds since the epoch). `start` runs it by the app of its own directory. */
export async function startDue(
  store: Store,
  now: number,
  start: (request: RunRequest) => Promise<ResponseNode>,
): Promise<ResponseNode[]> {
  const started: ResponseNode[] = [];
  for (const schedule of await store.schedules(now)) {
    const { nextAt: at } = schedule;
    if (at === null) continue;
    const after: Schedule = { ...schedule, nextAt: null, lastAt: at, error: null };
    try {
      if (schedule.cron !== undefined) after.nextAt = await nextMoment(schedule.cron, schedule.timezone, now);
      const node = await start(await requestOf(store, schedule, at));
      after.lastResponseId = node.id;
      started.push(node);
    } catch (thrown) {
      const { code, message } = toRotundaError(thrown);
      after.error = message;
      if (errorTable[code].retryable) {
        // Not now: it stays due, and whoever looks next tries again.
        if (schedule.error === message) continue;
        Object.assign(after, { nextAt: at, lastAt: schedule.lastAt });
      }
    }
    // Where it was changed in the meantime, or another server was quicker, theirs counts.
    await store.saveSchedule(after, at);
  }
  return started;
}

/**
 * Makes the schedules of a configuration the stored ones; those that are in it no more are gone. One that can never be
 * due is stored with the reason, which is told, and keeps no other from being stored.
 */
export async function syncConfigured(
  store: Store,
  configured: readonly ScheduleConfig[],
  workspace: string,
  now: number,
  tell: (text: string) => void,
): Promise<void> {
  const stored = (await store.schedules()).filter((one) => one.configured && one.request.workspace === workspace);
  for (const { name, cron, timezone, ...request } of configured) {
    const known = stored.find((one) => one.name === name);
    const wanted = { ...request, workspace };
    const same =
      known?.cron === cron && known.timezone === timezone && JSON.stringify(known.request) === JSON.stringify(wanted);
    // What was at fault may be mended elsewhere: a system learns new time zones.
    if (same && known.nextAt !== null) continue;
    const { timezone: _before, ...rest } = known ?? {
      id: newId("sched", now),
      lastResponseId: null,
      lastAt: null,
      createdAt: now,
    };
    const due = await nextMoment(cron, timezone, now).catch((thrown: unknown) => toRotundaError(thrown).message);
    const error = typeof due === "string" ? due : null;
    if (error !== null) tell(`schedule ${name} never starts anything: ${error}`);
    const made = {
      owner: LOCAL,
      name,
      cron,
      request: wanted,
      enabled: true,
      configured: true as const,
      nextAt: typeof due === "string" ? null : due,
      error,
    };
    await store.saveSchedule({ ...rest, ...made, ...(timezone !== undefined && { timezone }) });
  }
  const names = new Set(configured.map(({ name }) => name));
  for (const { id, name } of stored) if (!names.has(name)) await store.removeSchedule(id);
}

async function requestOf(store: Store, { id, owner, request }: Schedule, at: number): Promise<RunRequest> {
  const { input, profile, model, conversation, settings, workspace } = request;
  const isKnown = conversation !== undefined && (await store.conversation(conversation, owner)) !== undefined;
  return {
    input,
    workspace,
    door: "schedule",
    owner,
    queue: true,
    settings: { onApproval: "wait", ...settings, metadata: { ...settings?.metadata, schedule: id } },
    idempotency: { key: `\u0000schedule ${id} ${at}`, digest: "" },
    ...(profile !== undefined && { profile }),
    ...(model !== undefined && { model }),
    ...(conversation !== undefined && (isKnown ? { conversation } : { conversationName: conversation })),
  };
}
