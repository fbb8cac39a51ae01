/**
 * Responses as tasks: the tree is the store of the tasks extension, durable before anybody hears of a task.
 *
 * Invariant: a task's id is a response's; a run that failed is a completed task whose result says so, as the tool would
 * have said it.
 */
import { inputRequired } from "@modelcontextprotocol/server";
import type { App } from "../../types/app.ts";
import type { McpCaller } from "../../types/mcp.ts";
import type { ResponseNode } from "../../types/response.ts";
import { tellAnswer } from "./ask-tools.ts";
import { decisionOf, formOf, settle } from "./asking.ts";
import { nodeOf } from "./choice.ts";
import { type DetailedTask, type TaskStore, taskOf } from "./tasks.ts";
import { questionsOf } from "./waiting.ts";

export function responseTasks(caller: McpCaller): TaskStore {
  const find = async (taskId: string): Promise<{ app: App; node: ResponseNode } | undefined> => {
    const app = await caller.app();
    const node = await nodeOf(app, caller, taskId).catch(() => undefined);
    return node && { app, node };
  };
  return {
    async get(taskId): Promise<DetailedTask | undefined> {
      const found = await find(taskId);
      if (!found) return undefined;
      const { app, node } = found;
      const task = taskOf(node);
      if (node.endedAt !== null && task.status !== "cancelled") {
        const response = await app.engine.get(node.id);
        return { ...task, result: await tellAnswer({ kind: "ended", response }, node.id, app) };
      }
      if (task.status !== "input_required") return task;
      const approvals = caller.may("approve") ? await questionsOf(app, node.id) : [];
      const forms = approvals.map((approval) => [approval.id, inputRequired.elicit(formOf(approval))]);
      // Where nobody at this client may answer, it is work that goes on elsewhere.
      if (forms.length === 0)
        return { ...task, status: "working", statusMessage: "waits for a person at another door" };
      return { ...task, inputRequests: Object.fromEntries(forms) };
    },
    async update(taskId, answers) {
      const found = await find(taskId);
      if (!found) return false;
      for (const approval of await questionsOf(found.app, found.node.id)) {
        const decision = decisionOf(answers[approval.id]);
        if (decision) await settle(caller, approval, decision);
      }
      return true;
    },
    async cancel(taskId) {
      const found = await find(taskId);
      if (!found) return false;
      await found.app.engine.cancel(found.node.id, "cancelled by the client").catch(() => undefined);
      return true;
    },
  };
}
