/**
 * Runs of local clients: `rotunda chat` hands its turn to the server that runs on the same machine.
 *
 * Invariant: only the local token may name a directory; a run whose configuration (keys included) is another one here
 * than there is refused, and the client runs it by itself.
 */
import { isAbsolute } from "node:path";
import type { RunRequest } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { RunSettings } from "../../types/response.ts";
import { configFingerprint } from "../../util/fingerprint.ts";
import { parked } from "../../util/parked.ts";
import { DoorError } from "./errors.ts";
import { readInput } from "./input-items.ts";
import type { LocalRun } from "./local-runs-schemas.ts";
import type { Handler } from "./routes.ts";

export const startLocalRun: Handler<LocalRun> = async (context, body) => {
  // A page has no business in other directories.
  if (!context.identity.local || context.identity.session) {
    throw new RotundaError("insufficient_scope", "Only the local token may say which directory to work in.");
  }
  const { workspace } = body;
  if (!isAbsolute(workspace)) throw new DoorError("usage", "workspace must be absolute", { param: "workspace" });
  if (body.configuration !== undefined && !isAbsolute(body.configuration))
    throw new DoorError("usage", "configuration must be absolute", { param: "configuration" });
  const app = await context.services.appFor(workspace, body.configuration);
  // The files may have changed since they were read here.
  if (configFingerprint(app.config) !== body.fingerprint) await app.reload().catch(() => undefined);
  if (configFingerprint(app.config) !== body.fingerprint) {
    throw new RotundaError(
      "config_differs",
      "The server has another configuration, or other keys, for this directory.",
    );
  }
  // Pictures of the screen and of editors; a summary is asked for with nothing.
  const input = typeof body.input === "string" ? body.input : await readInput(body.input, async () => undefined);
  if (input.length === 0 && body.settings.compact === undefined)
    throw new DoorError("usage", "The input is empty.", { param: "input" });
  const request: RunRequest = {
    input,
    workspace,
    door: body.door,
    settings: body.settings as RunSettings,
    ...(body.previousResponseId !== undefined && { previousResponseId: body.previousResponseId }),
    ...(body.conversation !== undefined && { conversation: body.conversation }),
    ...(body.conversationName !== undefined && { conversationName: body.conversationName }),
    ...(body.queue && { queue: true }),
    ...(body.idempotency && { idempotency: body.idempotency }),
    ...(body.profile !== undefined && { profile: body.profile }),
    ...(body.model !== undefined && { model: body.model }),
    // The person sits at the client: the run waits here for the answer that comes from there.
    ...(body.interactive && { approver: parked }),
  };
  const node = await app.engine.start(request);
  context.accepted = true;
  context.responseId = node.id;
  context.services.limits.holdRun(context.identity.owner, app.engine.wait(node.id));
  context.json(200, { id: node.id });
};
