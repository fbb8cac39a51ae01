/**
 * task: hands a piece of work to a sub-agent.
 *
 * Invariant: the sub-agent is a response of its own below this call; the same call, run again, attaches to it,
 * so nothing is done twice. What `delegate` throws passes through: that is how a call waits for a person.
 */
import type { Tool, ToolResult } from "../types/tool.ts";
import { failure, filledText, InputError, optionalInteger } from "./input.ts";

const MAX_DEPTH = 3;

interface TaskProfile {
  name: string;
  description: string;
}

/** The tool for these profiles: they are what `agent_type` can be. */
export function createTaskTool(profiles: readonly TaskProfile[]): Tool {
  const list = profiles.map(({ name, description }) => `- ${name}: ${description}`).join("\n");
  return {
    name: "task",
    server: "rotunda",
    serverName: "task",
    title: "Sub-agent",
    description: `Starts a sub-agent on a piece of work and answers with its final report. It sees nothing of this conversation, so the task must say everything it needs. Agent types:\n${list}`,
    access: "read",
    repeatable: true,
    parallel: true,
    advice:
      "Hand over work that is wide (searching a large code base) or apart from the rest; do small things yourself. Start independent sub-agents in one answer, so that they work side by side. Say what you want reported: only the report comes back.",
    input: {
      type: "object",
      properties: {
        agent_type: { type: "string", enum: profiles.map(({ name }) => name), description: "Who does the work." },
        task: { type: "string", description: "The work, complete: aim, places, limits, and what to report." },
        description: { type: "string", description: "The work in three to five words, for people who watch." },
        max_turns: {
          type: "integer",
          minimum: 1,
          description: "Model calls that it may use. Default: the agent type's own.",
        },
      },
      required: ["agent_type", "task", "description"],
      additionalProperties: false,
    },
    run: async (input, context): Promise<ToolResult> => {
      let request: { profile: string; task: string; description: string; maxTurns?: number };
      try {
        const profile = filledText(input, "agent_type");
        if (!profiles.some(({ name }) => name === profile)) {
          throw new InputError(
            `unknown agent type: ${profile}; there are ${profiles.map(({ name }) => name).join(", ")}`,
          );
        }
        const task = filledText(input, "task");
        const description = filledText(input, "description");
        const maxTurns = optionalInteger(input, "max_turns", 1);
        if (context.depth >= MAX_DEPTH) throw new InputError(`maximum nesting depth (${MAX_DEPTH}) exceeded`);
        request = { profile, task, description, ...(maxTurns === undefined ? {} : { maxTurns }) };
      } catch (thrown) {
        if (thrown instanceof InputError) return failure(thrown.message);
        throw thrown;
      }
      context.progress(`Launching ${request.profile} sub-agent: ${request.description}`);
      const { status, text, error } = await context.delegate(request);
      const title = `[${request.profile} agent: ${request.description}]\n\n`;
      if (status === "completed") {
        context.progress(`Sub-agent completed: ${request.description}`);
        return { text: title + (text || "(the sub-agent ended without a report)") };
      }
      if (status === "waiting") return { text: `${title}The sub-agent waits for a person's decision.` };
      const ending = `[The sub-agent ended ${status}${error ? `: ${error}` : ""}]`;
      const report = title + (text ? `${text}\n\n${ending}` : ending);
      return status === "incomplete" ? { text: report } : failure(report);
    },
  };
}
