/**
 * A program that answers questions: the response ends with what it wants to do, and goes on with the program's answer.
 * It allows what writes below `notes/`, and refuses the rest.
 *
 *   export OPENAI_BASE_URL=http://127.0.0.1:7070/v1 OPENAI_API_KEY=$(rotunda token)
 *   node examples/approvals.ts
 */
import OpenAI from "openai";
import type { Response, ResponseInput } from "openai/resources/responses/responses";

const client = new OpenAI();

for (const input of ["Write notes/today.txt", "Write cart.js"]) {
  let response = await client.responses.create({ input });
  for (let asked = questionsOf(response); asked.length > 0; asked = questionsOf(response)) {
    const answers: ResponseInput = asked.map(({ id, name, arguments: written }) => {
      const { file_path: path = "" } = JSON.parse(written) as { file_path?: string };
      const approve = name === "write" && path.startsWith("notes/");
      process.stdout.write(`${name} ${path}: ${approve ? "allowed" : "refused"}\n`);
      const reason = approve ? "" : "Only files in notes/ may be written.";
      return { type: "mcp_approval_response", approval_request_id: id, approve, reason };
    });
    response = await client.responses.create({ previous_response_id: response.id, input: answers });
  }
  process.stdout.write(`${response.output_text}\n\n`);
}

/** What the response waits for: they stand at its end. */
function questionsOf({ output }: Response) {
  return output.flatMap((item) => (item.type === "mcp_approval_request" ? [item] : []));
}
