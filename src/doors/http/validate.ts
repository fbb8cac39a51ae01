/** Bodies against their schemas. Invariant: what a handler gets has passed the schema that is published. */
import type { ZodType } from "zod";
import type { Json } from "../../types/json.ts";
import { DoorError } from "./errors.ts";

/** The value as the schema gives it. Throws `usage` (400) that names the first wrong part. */
export async function checkBody(schema: ZodType, value: Json): Promise<unknown> {
  const result = await schema.safeParseAsync(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const param = pathText(issue?.path ?? []);
  const where = param === "" ? "The body" : `'${param}'`;
  throw new DoorError("usage", `${where} is not valid: ${issue?.message ?? "it does not fit the schema"}.`, {
    ...(param !== "" && { param }),
  });
}

/** `input[0].content` */
function pathText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += text === "" ? String(part) : `.${String(part)}`;
    if (text.length > 200) return text.slice(0, 200);
  }
  return text;
}
