/** What `rotunda import` would take over. */
import type { ImportPlan } from "../types/app.ts";
import { RotundaError } from "../types/error.ts";

export async function readImport(path: string, _place: { workspace: string; environment: NodeJS.ProcessEnv }): Promise<ImportPlan> {
  throw new RotundaError("usage", `${path} is of no kind that can be imported`);
}
