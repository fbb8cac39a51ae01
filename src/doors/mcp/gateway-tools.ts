/**
 * The gateway's own tools: finding and calling the others where they are too many to be shown, and reading on in a
 * result that was too long.
 *
 * Invariant: no server's tool has one of these names.
 */
import type { JsonObject } from "../../types/json.ts";
import type { Tool } from "../../types/tool.ts";
import { oneLine, visible } from "../../util/text.ts";
import { createToolSearch, searchTools, TOOL_SEARCH } from "../../util/tool-search.ts";

export const CALL_TOOL = "call_tool";
export const READ_OUTPUT = "read_output";
export const OWN_TOOLS: ReadonlySet<string> = new Set([TOOL_SEARCH, CALL_TOOL, READ_OUTPUT]);

const DEFAULT_FOUND = 8;
const CHARACTERS_OF_A_TOKEN = 4;
const SHOWN = 300;

const READS = { readOnlyHint: true, openWorldHint: false, idempotentHint: true };

export const readOutputTool: JsonObject = {
  name: READ_OUTPUT,
  title: "Read on in a result",
  description:
    "Reads on in the result of a call that was cut because it was too long: give the reference that the cut result names.",
  inputSchema: {
    type: "object",
    properties: {
      reference: { type: "string", description: "As the cut result gives it." },
      from: { type: "integer", minimum: 0, description: "Character to begin with. Default 0." },
      pattern: { type: "string", description: "Only lines that contain this text (plain text; case does not matter)." },
    },
    required: ["reference"],
    additionalProperties: false,
  },
  annotations: READS,
};

/** What is listed in place of all tools. */
export function searchingTools(tools: readonly Tool[]): JsonObject[] {
  const { description, input } = createToolSearch(tools);
  return [
    {
      name: TOOL_SEARCH,
      title: "Find tools",
      description: description.replace("what is found can be called in your next step", `call it with ${CALL_TOOL}`),
      inputSchema: input,
      annotations: READS,
    },
    {
      name: CALL_TOOL,
      title: "Call a tool that was found",
      description: `Calls a tool that ${TOOL_SEARCH} has found, by its name and with the arguments that its schema asks for.`,
      inputSchema: {
        type: "object",
        properties: {
          name: { type: "string", description: `As ${TOOL_SEARCH} has told it.` },
          arguments: { type: "object", description: "As the tool's own schema describes them." },
        },
        required: ["name"],
      },
    },
    readOutputTool,
  ];
}

const sizes = new WeakMap<readonly Tool[], number>();

/** Tokens of the schemas, about. */
export function tokensOf(tools: readonly Tool[]): number {
  let tokens = sizes.get(tools);
  if (tokens === undefined) {
    let characters = 0;
    for (const { name, description, input } of tools)
      characters += name.length + description.length + JSON.stringify(input).length;
    tokens = Math.ceil(characters / CHARACTERS_OF_A_TOKEN);
    sizes.set(tools, tokens);
  }
  return tokens;
}

/** The tools that fit, with their schemas: nothing else tells the client of them. */
export function foundText(tools: readonly Tool[], names: ReadonlyMap<Tool, string>, input: JsonObject): string {
  const { query, limit } = input;
  const most = typeof limit === "number" && Number.isInteger(limit) ? limit : DEFAULT_FOUND;
  const found = searchTools(tools, String(query ?? ""), most);
  if (found.length === 0) return "No tool fits these words.";
  const parts = found.map((tool) => {
    const schema = JSON.stringify(tool.input);
    return `- ${names.get(tool) ?? tool.name}: ${oneLine(visible(tool.description), SHOWN)}\n  ${schema}`;
  });
  return `${found.length} of ${tools.length} tools fit; call them with ${CALL_TOOL}:\n${parts.join("\n")}`;
}
