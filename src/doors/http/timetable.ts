/**
 * Timetable: the clock of schedules in a server.
 *
 * Invariant: what is due is started for its owner as if they had asked: within the token's limits, scopes and profiles, by the app
 * of its own directory; a token that is no longer in force starts nothing.
 */
import { RotundaError } from "../../types/error.ts";
import { LOCAL, type Owner } from "../../types/response.ts";
import type { ScheduleConfig } from "../../types/schedule.ts";
import { type Identity, identityOf, isInForce, LOCAL_IDENTITY, mayUseProfile } from "./identity.ts";
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
    // The first time as well where there are none: what stood there when the last server ran is over.
    if (this.#synced !== schedules) {
      await app.engine.upkeep.syncSchedules(schedules, app.workspace);
    }
    this.#synced = schedules;
    await app.engine.upkeep.startDue(async (request) => {
      const identity = await this.#identityOf(request.owner ?? LOCAL);
      if (!identity.scopes.includes("responses:write"))
        throw new RotundaError("insufficient_scope", "its token may not start responses any more");
      if (request.profile !== undefined && !mayUseProfile(identity, request.profile)) {
        throw new RotundaError("insufficient_scope", `its token may not use profile ${request.profile}`);
      }
      const release = await limits.acquireRun(identity);
      try {
        const own = await appFor(request.workspace);
        const node = await own.engine.start(request);
        own.engine.wait(node.id).then(release, release);
        return node;
      } catch (error) {
        release();
        throw error;
      }
    });
  }

  /** Throws `unauthorized` where whoever made the schedule may do nothing any more. */
  async #identityOf(owner: Owner): Promise<Identity> {
    if (owner === LOCAL) return LOCAL_IDENTITY;
    const token = await this.#services.app.store.token(owner);
    if (token && isInForce(token, Date.now())) return identityOf(token);
    throw new RotundaError("unauthorized", "the token that made this schedule is no longer in force");
  }
}
