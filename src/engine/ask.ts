/**
 * Ask: one call of the model, from the prompt to the stored answer.
 *
 * Invariant: when it returns, the answer has been handed to the log, finished or closed as cut. What was
 * partly shown is never asked for again.
 */
import { toRotundaError } from "../types/error.ts";
import type { Entry, MessageItem, Usage } from "../types/item.ts";
import {
  type AgentSetting,
  type HistoryNode,
  type Model,
  ModelError,
  type ModelRequest,
  type ToolDefinition,
} from "../types/model.ts";
import type { Profile } from "../types/profile.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Tool } from "../types/tool.ts";
import { newId } from "../util/ids.ts";
import { AgentCalls } from "./agent-calls.ts";
import { Answer, closeText } from "./answer.ts";
import { BudgetReached, type Leave } from "./budget.ts";
import type { CallSupport } from "./call-tools.ts";
import { CHARACTERS_OF_A_TOKEN, lengthOf } from "./compact-size.ts";
import { charactersOf, compacted, isInstruction } from "./compacted.ts";
import { type History, syntheticNode } from "./history.ts";
import { isCall, type Step } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { effectiveMode, isReadOnly } from "./prepare.ts";
import { FINAL, instructionsOf, NUDGE } from "./prompt.ts";
import type { Run, Stop } from "./run.ts";
import { streamOf } from "./spans.ts";
import { priced } from "./usage.ts";

type AskStep = Extract<Step, { kind: "ask" }>;

export interface AskSupport {
  profile: Profile;
  model: Model;
  tools: readonly Tool[];
  offered: ReadonlyMap<string, Tool>;
  /** The same array as long as the tools are the same: models cache its text. */
  definitions: readonly ToolDefinition[];
  projectInstructions: string;
  /** The path above this response. */
  above: readonly HistoryNode[];
  history: History;
  /** Milliseconds since the epoch. */
  deadline: number;
  askPerson: CallSupport["askPerson"];
  leave: Leave;
}

/** Null: go on with the next step. A `Stop`: the response ends so. */
export async function ask(
  parts: EngineParts,
  run: Run,
  step: AskStep,
  support: AskSupport,
): Promise<Stop | "waiting" | null> {
  const current = support.history.current(run);
  const path = compacted([...support.above, current]);
  const hasResults = current.entries.some(isCall);
  const outcome = await askOnce(parts, run, step, support, path, hasResults);
  if (outcome !== "rejected") return outcome;
  // An endpoint that cannot digest its own tool calls may still read them as plain text.
  notify(parts, run, "the endpoint rejected the tool results; asking once more with them as plain text");
  const plain = path.map((node) => (node.ended ? node : flatten(node)));
  const repaired = await askOnce(parts, run, step, support, plain, hasResults);
  if (repaired !== "rejected") return repaired;
  degrade(run, step.turn);
  return null;
}

async function askOnce(
  parts: EngineParts,
  run: Run,
  step: AskStep,
  support: AskSupport,
  path: readonly HistoryNode[],
  hasResults: boolean,
): Promise<Stop | "waiting" | "rejected" | null> {
  const clientTools = new Map((run.node.settings.clientTools ?? []).map((tool) => [tool.name, tool]));
  const { offered, model, leave } = support;
  const answer = new Answer(run, {
    turn: step.turn,
    modelKey: model.key,
    tools: offered,
    clientTools,
    final: step.final,
  });
  const request = requestOf(parts, run, step, support, path);
  const text = `asking ${model.id} (call ${step.turn}, ${request.tools.length} tools)`;
  parts.notify({ responseId: run.node.id, level: "debug", topic: "llm", text });
  const agent = model.agent ? new AgentCalls(parts, run, support, answer) : undefined;
  try {
    for await (const given of streamOf(parts, run, model, request)) {
      const event = given.type === "finish" ? priced(given, leave.model.price) : given;
      if (event.type === "finish") {
        if (agent) await agent.finish(event);
        else answer.finish(event);
        // In the same commit as the answer.
        leave.settle();
        return null;
      }
      if (agent) await agent.write(event);
      else if (event.type !== "call_question" && event.type !== "call_outcome") answer.write(event);
    }
    throw new ModelError("upstream_protocol", `model ${model.id} ended its answer without saying why`, {
      partial: true,
    });
  } catch (thrown) {
    if (run.failure) throw run.failure;
    if (agent) await agent.cut();
    else answer.cut(answer.begun ? cutUsage(leave.model, request, answer.characters) : undefined);
    if (run.stopped) return run.stopped;
    if (thrown instanceof BudgetReached) {
      run.patch({ error: thrown.error });
      return "waiting";
    }
    const error = toRotundaError(thrown);
    const { begun } = agent ?? answer;
    if (error.code === "upstream_bad_request" && hasResults && !begun) return "rejected";
    return failure(parts, error, begun);
  }
}

/** What an answer that was cut has used, about: no endpoint tells of it, and each of them asks for its money. */
function cutUsage(model: Model, request: ModelRequest, characters: number): Usage | undefined {
  const { history, instructions, tools } = request;
  const asked = charactersOf(history) + instructions.length + lengthOf(tools);
  const input_tokens = Math.ceil(asked / CHARACTERS_OF_A_TOKEN);
  const output_tokens = Math.ceil(characters / CHARACTERS_OF_A_TOKEN);
  const usage: Usage = {
    input_tokens,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  return priced({ type: "finish", reason: "stop", usage }, model.price).usage;
}

function failure(parts: EngineParts, thrown: ReturnType<typeof toRotundaError>, begun: boolean): Stop {
  const message = thrown.remedy === undefined ? thrown.message : `${thrown.message}. ${thrown.remedy}`;
  const error = { code: thrown.code, message: parts.redact(message) };
  if (thrown.code === "output_limit") return { status: "incomplete", reason: "output_limit", error };
  return begun ? { status: "incomplete", reason: "stream_cut", error } : { status: "failed", error };
}

function requestOf(
  parts: EngineParts,
  run: Run,
  step: AskStep,
  support: AskSupport,
  path: readonly HistoryNode[],
): ModelRequest {
  const { node } = run;
  const { profile, model } = support;
  // An agent has its own tools, and reads what the workspace says to agents itself.
  const nothing = { tools: [], projectInstructions: "", definitions: [] };
  const { tools, projectInstructions, definitions } = model.agent ? nothing : support;
  const history: HistoryNode[] = [...path];
  if (step.nudge) history.push(syntheticNode(NUDGE));
  if (step.final) history.push(syntheticNode(FINAL[step.final] ?? ""));
  const temperature = node.settings.temperature ?? profile.temperature;
  const maxOutputTokens = node.settings.maxOutputTokens ?? profile.maxOutputTokens;
  return {
    instructions: instructionsOf({
      profile: model.agent ? ownOf(profile) : hasOwnSystem(node, path) ? { ...profile, instructions: "" } : profile,
      node,
      tools,
      projectInstructions,
    }),
    history,
    tools: definitions,
    toolChoice: toolChoiceOf(run, step),
    parallelToolCalls: (node.settings.parallel ?? profile.parallel) !== false,
    ...(temperature !== undefined && { temperature }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(node.settings.format && { format: node.settings.format }),
    ...(node.settings.sampling && { sampling: node.settings.sampling }),
    ...(node.settings.reasoningEffort !== undefined && { reasoningEffort: node.settings.reasoningEffort }),
    ...(node.settings.reasoning && { reasoning: true as const }),
    ...(profile.defaults && !node.settings.plain && { defaults: profile.defaults }),
    cacheKey: support.above[0]?.responseId ?? node.id,
    deadline: support.deadline,
    onRetry: (text) => notify(parts, run, text),
    instead: support.leave.instead,
    ...(model.agent && { agent: agentSetting(parts, run, profile) }),
  };
}

/** Who speaks to a model, and said first as the system what it is to be, gets no other words than these. */
function hasOwnSystem({ settings }: ResponseNode, path: readonly HistoryNode[]): boolean {
  const first = path.find(({ entries }) => entries.length > 0)?.entries[0];
  return settings.plain === true && first !== undefined && isInstruction(first);
}

/** An agent has a prompt of its own: only what is said beyond that joins it. */
function ownOf(profile: Profile): Profile {
  return profile.generic ? { ...profile, instructions: "" } : profile;
}

function agentSetting(parts: EngineParts, run: Run, profile: Profile): AgentSetting {
  const { toolFilters = [], bounds } = run.node.settings;
  const rules = [parts.permissions, ...(profile.permissions ? [profile.permissions] : [])];
  return {
    workspace: run.node.workspace,
    mode: effectiveMode(parts, run, profile),
    readOnly: isReadOnly(run, profile),
    skipPermissions: profile.skipAgentPermissions === true,
    tools: profile.tools ? [profile.tools, ...toolFilters] : toolFilters,
    rules: {
      allow: rules.flatMap(({ allow }) => allow),
      ask: [...rules.flatMap(({ ask }) => ask), ...(bounds?.ask ?? [])],
      deny: [...rules.flatMap(({ deny }) => deny), ...(bounds?.deny ?? [])],
    },
  };
}

/** A forced call is forced once: after it the model must be free to answer. */
function toolChoiceOf({ node, output }: Run, step: AskStep): ModelRequest["toolChoice"] {
  const wished = node.settings.toolChoice ?? "auto";
  if (step.final) return "none";
  return wished !== "none" && output.some(isCall) ? "auto" : wished;
}

function notify(parts: EngineParts, run: Run, text: string): void {
  parts.notify({ responseId: run.node.id, level: "warn", topic: "llm", text: parts.redact(text) });
}

/** The run's own tool calls and results as plain messages (parity U2, N18). */
function flatten(node: HistoryNode): HistoryNode {
  const entries = node.entries.flatMap((entry): Entry[] => {
    if (!isCall(entry)) return entry.item.type === "reasoning" ? [] : [{ ...entry, meta: {} }];
    const { item, meta } = entry;
    const said = `I called ${meta.tool ?? item.name} with ${item.arguments || "{}"}.`;
    const result = `Result of ${meta.tool ?? item.name}:\n\n${item.output ?? item.error ?? ""}`;
    return [
      { ...entry, item: plainMessage("assistant", said), meta: {} },
      { ...entry, side: "input", turn: 0, item: plainMessage("user", result), meta: {} },
    ];
  });
  return { ...node, entries };
}

function plainMessage(role: "assistant" | "user", text: string): MessageItem {
  const content =
    role === "user" ? { type: "input_text" as const, text } : { type: "output_text" as const, text, annotations: [] };
  return { type: "message", id: newId("msg"), role, status: "completed", content: [content] };
}

/** The answer is made of the tool results, and says so (parity N18). */
function degrade(run: Run, turn: number): void {
  const question = run.input
    .flatMap(({ item }) => (item.type === "message" && item.role === "user" ? item.content : []))
    .map((part) => ("text" in part ? part.text : ""))
    .join("\n");
  const results = run.output.filter(isCall).filter((entry) => entry.item.status === "completed");
  const sections = results.map(({ item, meta }) => `## ${meta.tool ?? item.name}\n${item.output}`);
  const text =
    sections.length > 0
      ? `Here's what I found for "${question}":\n\n${sections.join("\n\n")}`
      : "[Unable to complete request — no tool results were collected before the error occurred]";
  const position = run.output.length;
  const item: MessageItem = {
    type: "message",
    id: newId("msg"),
    role: "assistant",
    status: "in_progress",
    content: [],
  };
  run.output[position] = { side: "output", position, turn, item, meta: {} };
  const at = { output_index: position, item_id: item.id, content_index: 0 };
  run.emit({ type: "response.output_item.added", output_index: position, item: { ...item } });
  run.emit({ type: "response.content_part.added", ...at, part: { type: "output_text", text: "", annotations: [] } });
  run.emit({ type: "response.output_text.delta", ...at, delta: text });
  const meta = { finish: "stop" as const, synthetic: "degraded" };
  closeText(run, { position, item, kind: "text", text, turn, status: "completed", meta });
  run.patch({ degraded: true });
}
