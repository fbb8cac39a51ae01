/**
 * The fields of an MCP server's form: what a person can give for each, and why something does not fit.
 *
 * Invariant: text of the server was cleaned before it is shown; what is not checked here is checked by whoever takes
 * the answer.
 */
import type { Elicitation } from "../../types/elicitation.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import { cleanLine } from "./clean.ts";

export interface Option {
  value: Json;
  label: string;
}

export interface Field {
  name: string;
  title: string;
  description: string;
  required: boolean;
  type: string;
  /** What there is to choose from; empty: anything can be typed. */
  options: Option[];
  /** More than one of them can be chosen. */
  several: boolean;
  schema: JsonObject;
}

export function fieldsOf({ requestedSchema }: Elicitation): Field[] {
  const { properties, required } = (requestedSchema ?? {}) as { properties?: JsonObject; required?: Json };
  return Object.entries(properties ?? {}).map(([name, given]) => {
    const schema = objectOf(given);
    const text = (key: string, otherwise: string) => (typeof schema[key] === "string" ? schema[key] : otherwise);
    return {
      name,
      title: cleanLine(text("title", name), 40),
      description: cleanLine(text("description", ""), 300),
      required: Array.isArray(required) && required.includes(name),
      type: String(schema.type),
      options: optionsOf(schema),
      several: schema.type === "array",
      schema,
    };
  });
}

function objectOf(value: Json | undefined): JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

function optionsOf(schema: JsonObject): Option[] {
  if (schema.type === "boolean")
    return [
      { value: true, label: "yes" },
      { value: false, label: "no" },
    ];
  const of = schema.type === "array" ? objectOf(schema.items) : schema;
  if (Array.isArray(of.enum)) {
    const names = Array.isArray(of.enumNames) ? of.enumNames : [];
    return of.enum.map((value, index) => ({ value, label: cleanLine(String(names[index] ?? value), 60) }));
  }
  const titled = of.oneOf ?? of.anyOf;
  return (Array.isArray(titled) ? titled.map(objectOf) : []).flatMap((one) =>
    typeof one.const === "string" ? [{ value: one.const, label: cleanLine(String(one.title ?? one.const), 60) }] : [],
  );
}

/** What was typed as what was asked for; what is none of it stays text. Undefined: nothing was typed. */
export function typedValue({ type }: Field, text: string): Json | undefined {
  if (text.trim() === "") return undefined;
  if (type !== "number" && type !== "integer") return text;
  const value = Number(text.trim());
  return Number.isFinite(value) ? value : text;
}

/** Why a value cannot be sent; undefined where it can. */
export function faultOf(field: Field, value: Json | undefined): string | undefined {
  const { required, type, schema } = field;
  if (value === undefined) return required ? "it is needed" : undefined;
  if (type === "integer" && !Number.isInteger(value)) return "a whole number is asked for";
  if (type === "number" && typeof value !== "number") return "a number is asked for";
  const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
  const bounds = (size: number, least: Json | undefined, most: Json | undefined, unit: string) => {
    if (typeof least === "number" && size < least) return `at least ${least}${unit}`;
    return typeof most === "number" && size > most ? `at most ${most}${unit}` : undefined;
  };
  if (typeof value === "number") return bounds(value, minimum, maximum, "");
  if (Array.isArray(value)) return bounds(value.length, minItems, maxItems, " choices");
  return typeof value === "string" ? bounds([...value].length, minLength, maxLength, " characters") : undefined;
}
