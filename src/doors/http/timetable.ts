/**
 * Timetable: the clock of schedules in a server.
 *
 * Invariant: what is due is started for its owner as if they had asked, by the app of its own directory; a token that is
 * no longer in force starts nothing.
 */

import { RotundaError } from "../../types/error.ts";
import { LOCAL } from "../../types/response.ts";
import type { ScheduleConfig } from "../../types/schedule.ts";
import type { Services } from "./services.ts";

export class Timetable {
  readonly #services: Services;
  #synced: readonly ScheduleConfig[] | undefined;

  constructor(services: Services) {
    this.#services = services;
  }

  /** Starts what is due. The configuration's schedules are stored first, where they have changed. */
  async tick(): Promise<void> {
    const { app, appFor, limits } = this.#services;
    const { schedules = [] } = app.config;
    if (this.#synced !== schedules && (this.#synced || schedules.length > 0)) {
      await app.engine.upkeep.syncSchedules(schedules, app.workspace);
    }
    this.#synced = schedules;
    await app.engine.upkeep.startDue(async (request) => {
      const owner = request.owner ?? LOCAL;
      const token = owner === LOCAL ? undefined : await app.store.token(owner);
      if (
        owner !== LOCAL &&
        (!token || token.revokedAt !== null || (token.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now())
      )
        throw new RotundaError("unauthorized", "the token that made this schedule is no longer in force");
      const own = await appFor(request.workspace);
      const node = await own.engine.start(request);
      limits.holdRun(owner, own.engine.wait(node.id));
      return node;
    });
  }
}
