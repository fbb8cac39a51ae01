/**
 * Forms of elicitation: an object of primitive properties, and what fits it.
 *
 * Invariant: nothing of the schema is compiled or followed; checking costs no more than the length of what is checked.
 */
import type { Json, JsonObject } from "../types/json.ts";
import { isObject } from "./definitions.ts";

const MAX_PROPERTIES = 100;
const MAX_CHOICES = 1_000;
const MAX_SCHEMA = 64 * 1024;
const MAX_TEXT = 100_000;

/** Why a schema is none of a form; undefined where it is one. */
export function formFault(schema: unknown): string | undefined {
  if (!isObject(schema) || schema.type !== "object" || !isObject(schema.properties))
    return "it is not an object's schema";
  if (Object.keys(schema.properties).length > MAX_PROPERTIES) return `it has more than ${MAX_PROPERTIES} properties`;
  if (JSON.stringify(schema).length > MAX_SCHEMA) return `it is over ${MAX_SCHEMA} characters`;
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!isObject(property) || !checks[String(property.type)]) return `property ${name} is not of a primitive type`;
    if ((choicesOf(property)?.length ?? 0) > MAX_CHOICES)
      return `property ${name} has more than ${MAX_CHOICES} choices`;
  }
  return undefined;
}

/** Why a content does not fit a form; undefined where it does. */
export function contentFault(schema: JsonObject, content: JsonObject): string | undefined {
  const properties = schema.properties as JsonObject;
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (typeof name === "string" && content[name] === undefined) return `${name} is missing`;
  }
  for (const [name, value] of Object.entries(content)) {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (!isObject(property)) return `${name} was not asked for`;
    const fault = value === undefined ? undefined : checks[String(property.type)]?.(property, value);
    if (fault !== undefined) return `${name} ${fault}`;
  }
  return undefined;
}

type Check = (schema: JsonObject, value: Json) => string | undefined;

const checks: Record<string, Check> = {
  string: checkText,
  number: checkNumber,
  integer: (schema, value) => (Number.isInteger(value) ? checkNumber(schema, value) : "is not a whole number"),
  boolean: (_schema, value) => (typeof value === "boolean" ? undefined : "is not true or false"),
  array: checkChoices,
};

function checkText(schema: JsonObject, value: Json): string | undefined {
  if (typeof value !== "string") return "is not text";
  if (value.length > MAX_TEXT) return `is longer than ${MAX_TEXT} characters`;
  const choices = choicesOf(schema);
  if (choices && !choices.includes(value)) return `is none of ${choices.slice(0, 20).join(", ")}`;
  const { minLength, maxLength, format } = schema;
  const length = [...value].length;
  if (typeof minLength === "number" && length < minLength) return `is shorter than ${minLength} characters`;
  if (typeof maxLength === "number" && length > maxLength) return `is longer than ${maxLength} characters`;
  const fits = Object.hasOwn(formats, String(format)) ? formats[String(format)] : undefined;
  return fits && !fits(value) ? `is not of the format ${String(format)}` : undefined;
}

const formats: Record<string, (value: string) => boolean> = {
  email: (value) => /^[^\s@]+@[^\s@]+$/.test(value),
  uri: (value) => /^[a-z][a-z0-9+.-]*:/i.test(value) && URL.canParse(value),
  date: (value) => /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value)),
  "date-time": (value) => /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value)),
};

function checkNumber({ minimum, maximum }: JsonObject, value: Json): string | undefined {
  if (typeof value !== "number" || !Number.isFinite(value)) return "is not a number";
  if (typeof minimum === "number" && value < minimum) return `is less than ${minimum}`;
  return typeof maximum === "number" && value > maximum ? `is more than ${maximum}` : undefined;
}

function checkChoices(schema: JsonObject, value: Json): string | undefined {
  if (!Array.isArray(value) || value.some((one) => typeof one !== "string")) return "is not a list of texts";
  const choices = choicesOf(schema) ?? [];
  const other = value.find((one) => !choices.includes(String(one)));
  if (other !== undefined) return `has ${String(other).slice(0, 100)}, which is no choice`;
  const { minItems, maxItems } = schema;
  if (typeof minItems === "number" && value.length < minItems) return `has fewer than ${minItems} choices`;
  return typeof maxItems === "number" && value.length > maxItems ? `has more than ${maxItems} choices` : undefined;
}

/** Of a text or of the entries of a list; undefined where anything goes. */
function choicesOf(schema: JsonObject): string[] | undefined {
  const of = isObject(schema.items) ? schema.items : schema;
  if (Array.isArray(of.enum)) return of.enum.map(String);
  const titled = of.oneOf ?? of.anyOf;
  if (!Array.isArray(titled)) return undefined;
  return titled.flatMap((one) => (isObject(one) && typeof one.const === "string" ? [one.const] : []));
}

/** What a person left as it was proposed: the defaults of the form (SEP-1034). */
export function withDefaults(schema: JsonObject, content: JsonObject): JsonObject {
  const filled: JsonObject = { ...content };
  const properties = isObject(schema.properties) ? schema.properties : {};
  for (const [name, property] of Object.entries(properties)) {
    if (Object.hasOwn(filled, name) || !isObject(property) || property.default === undefined) continue;
    filled[name] = property.default;
  }
  return filled;
}
