/**
 * The tools of a server: listed, checked and called.
 *
 * Invariant: whatever a tool throws, and whatever does not fit its schema, is a result with `isError`; a client that can
 * follow tasks, and only such a one, may get a task in place of a result.
 */
import { type McpServer, ProtocolError, ProtocolErrorCode, type ServerContext } from "@modelcontextprotocol/server";
import { type ZodObject, z } from "zod";
import type { JsonObject } from "../../types/json.ts";
import { type Answer, errorText, fail } from "./results.ts";
import { withinTrace } from "./trace.ts";

export interface ToolEntry {
  name: string;
  title: string;
  description: string;
  input: ZodObject;
  output?: ZodObject;
  reads?: boolean;
  run(given: never, context: ServerContext): Promise<Answer>;
  tellError?(given: never, thrown: unknown): string;
}

/** One entry; the types of its input and of what runs with it belong together. */
export function tool<Input extends ZodObject>(
  entry: Omit<ToolEntry, "run" | "input" | "tellError"> & {
    input: Input;
    run(given: z.output<Input>, context: ServerContext): Promise<Answer>;
    tellError?(given: z.output<Input>, thrown: unknown): string;
  },
): ToolEntry {
  return entry;
}

function schemaOf(schema: ZodObject, io: "input" | "output"): JsonObject {
  return z.toJSONSchema(schema, { io }) as JsonObject;
}

function listed({ name, title, description, input, output, reads = false }: ToolEntry) {
  return {
    name,
    title,
    description,
    inputSchema: schemaOf(input, "input") as { type: "object" },
    ...(output && { outputSchema: schemaOf(output, "output") as { type: "object" } }),
    annotations: { title, readOnlyHint: reads, destructiveHint: !reads, idempotentHint: reads, openWorldHint: !reads },
  };
}

/** The table is made when it is first needed: a client that only connects waits for none of it. */
export function serveTools({ server }: McpServer, table: () => Promise<readonly ToolEntry[]>): void {
  server.registerCapabilities({ tools: {} });
  server.setRequestHandler("tools/list", async () => ({ tools: (await table()).map(listed) }));
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    const entry = (await table()).find(({ name }) => name === params.name);
    if (!entry) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Tool ${params.name} not found`);
    const parsed = entry.input.safeParse(params.arguments ?? {});
    if (!parsed.success) {
      return fail(
        `MCP error -32602: Input validation error: Invalid arguments for tool ${entry.name}: ${z.prettifyError(parsed.error)}`,
      );
    }
    const given = parsed.data as never;
    try {
      return await withinTrace(context.mcpReq._meta, () => entry.run(given, context));
    } catch (thrown) {
      return fail(entry.tellError?.(given, thrown) ?? errorText(thrown));
    }
  });
}
