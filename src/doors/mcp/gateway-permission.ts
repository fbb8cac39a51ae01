/**
 * Permission: what a person at the client is asked before a tool is called that the rules ask about.
 *
 * Invariant: the tool and its arguments are shown as they are, invisible characters made visible; only a clear yes is one.
 */
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import { canonicalJson } from "../../util/canonical.ts";
import { visible } from "../../util/text.ts";

const CHOICES = ["allow once", "deny"] as const;
const SHOWN = 4_000;

export function permissionForm(tool: string, input: JsonObject, why: string) {
  const written = canonicalJson(input);
  const shown = visible(
    written.length > SHOWN ? `${written.slice(0, SHOWN)} … (${written.length} characters)` : written,
  );
  return {
    message: `May ${visible(tool)} be called with ${shown}?\n(${visible(why)})`,
    requestedSchema: {
      type: "object" as const,
      properties: { decision: { type: "string" as const, title: "Decision", enum: [...CHOICES] } },
      required: ["decision"],
    },
  };
}

export function permissionOf(answer: unknown): "allow" | "deny" {
  if (!isJsonObject(answer) || answer.action !== "accept" || !isJsonObject(answer.content)) return "deny";
  return answer.content.decision === CHOICES[0] ? "allow" : "deny";
}
