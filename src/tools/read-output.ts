/**
 * read_output: parts of an earlier tool result that was too long to be shown as a whole.
 *
 * Invariant: only results of this conversation are read, and a pattern of the model never runs as a regular
 * expression on our event loop: it is plain text.
 */
import type { Tool } from "../types/tool.ts";
import { answering, failure, filledText, InputError, optionalInteger, optionalText } from "./input.ts";

const MAX_LINES = 2000;

export const readOutputTool: Tool = {
  name: "read_output",
  server: "rotunda",
  serverName: "read_output",
  description:
    "Reads lines of an earlier tool result of this conversation that was clipped. Give the call id that the clipped result names, and a range of lines, a text that the lines must contain, or both.",
  access: "read",
  repeatable: true,
  parallel: true,
  advice: "When a result was clipped, read the part that you need from it instead of running the call again.",
  input: {
    type: "object",
    properties: {
      call: { type: "string", description: "The id of the call, or the end of it, as the clipped result gives it." },
      from: { type: "integer", minimum: 1, description: "First line. Default 1." },
      to: { type: "integer", minimum: 1, description: `Last line. At most ${MAX_LINES} lines are answered.` },
      pattern: { type: "string", description: "Only lines that contain this text (plain text; case does not matter)." },
    },
    required: ["call"],
    additionalProperties: false,
  },
  run: answering(async (input, context) => {
    const call = filledText(input, "call");
    const from = optionalInteger(input, "from", 1) ?? 1;
    const to = optionalInteger(input, "to", 1);
    if (to !== undefined && from > to) throw new InputError(`invalid line range: from (${from}) > to (${to})`);
    const pattern = optionalText(input, "pattern")?.toLowerCase();
    const output = await context.readOutput(call);
    if (output === undefined) return failure(`no output of a call "${call}" in this conversation`);
    const lines = output.split("\n");
    if (lines.at(-1) === "") lines.pop();
    if (from > lines.length) throw new InputError(`no lines in specified range (output has ${lines.length} lines)`);
    const last = Math.min(to ?? lines.length, lines.length);
    const chosen: string[] = [];
    let more = false;
    for (let number = from; number <= last && !more; number++) {
      const line = lines[number - 1] ?? "";
      if (pattern !== undefined && !line.toLowerCase().includes(pattern)) continue;
      if (chosen.length === MAX_LINES) more = true;
      else chosen.push(pattern === undefined ? line : `${number}:${line}`);
    }
    if (chosen.length === 0) return { text: `No matches found in lines ${from}-${last} of ${lines.length}` };
    const title =
      pattern === undefined
        ? `Lines ${from}-${from + chosen.length - 1} of ${lines.length}`
        : `${chosen.length} lines of ${lines.length}`;
    return {
      text: `${title}:\n${chosen.join("\n")}${more ? `\n[more than ${MAX_LINES} lines; ask for a later part]` : ""}`,
    };
  }),
};
