/**
 * What an MCP server wants to know of a person.
 *
 * Invariant: what was left empty is not said; a link is opened by a person's own click, and told where it leads.
 */
import { useId } from "preact/hooks";
import { ask } from "./api.ts";
import { useAction } from "./load.ts";
import { lookAgain } from "./shared.ts";
import { Problem } from "./view.tsx";
import { shown, Visible } from "./visible.tsx";
import type { Elicitation, ElicitationField } from "./wire.ts";

export function Question({ question }: { question: Elicitation }) {
  const { busy, problem, run } = useAction(lookAgain);
  const fields = Object.entries(question.requestedSchema?.properties ?? {});
  const answer = (action: string, content?: unknown) =>
    run(() =>
      ask(`/v1/elicitation/${question.id}/resolve`, { body: { action, ...(content !== undefined && { content }) } }),
    );
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const given = fields.flatMap(([name, field], index) => {
      const value = givenValue(form, fieldName(index), field, isRequired(question, name));
      return value === undefined ? [] : [[name, value] as const];
    });
    answer("accept", question.mode === "url" ? undefined : Object.fromEntries(given));
  };
  return (
    <form class="approval" aria-label={`Question of ${shown(question.server)}`} onSubmit={submit}>
      <p class="approval-title">
        <strong>{shown(question.server)}</strong> asks: <Visible text={question.message} />
      </p>
      <Address url={question.url} />
      {fields.map(([name, field], index) => (
        <Field
          key={name}
          label={shown(field.title ?? name)}
          name={fieldName(index)}
          field={field}
          required={isRequired(question, name)}
        />
      ))}
      <div class="approval-buttons">
        <button type="submit" class="primary" disabled={busy}>
          {question.mode === "url" ? "I have done it" : "Answer"}
        </button>
        <button type="button" disabled={busy} onClick={() => answer("decline")} title="The server is told: no">
          Decline
        </button>
        <button type="button" disabled={busy} onClick={() => answer("cancel")} title="The server is told: no answer">
          Cancel
        </button>
      </div>
      <Problem text={problem} />
    </form>
  );
}

/** A server's own names could be those of a form's properties. */
function fieldName(index: number): string {
  return `field-${index}`;
}

function Address({ url }: { url: string | null }) {
  if (url === null || !/^https?:\/\//i.test(url) || !URL.canParse(url)) return null;
  return (
    <p>
      <a href={url} target="_blank" rel="noopener noreferrer">
        Open {shown(new URL(url).host)}
      </a>{" "}
      <code>
        <Visible text={url} />
      </code>
    </p>
  );
}

function isRequired({ requestedSchema }: Elicitation, name: string): boolean {
  return requestedSchema?.required?.includes(name) === true;
}

/** Undefined: nothing was said. */
function givenValue(form: FormData, name: string, { type, format }: ElicitationField, required: boolean): unknown {
  if (type === "boolean") return form.get(name) !== null;
  if (type === "array") {
    const chosen = form.getAll(name);
    return chosen.length > 0 || required ? chosen : undefined;
  }
  const given = form.get(name);
  if (typeof given !== "string" || given === "") return undefined;
  if (type === "number" || type === "integer") return Number(given);
  return format === "date-time" ? new Date(given).toISOString() : given;
}

interface Choice {
  value: string;
  name: string;
}

function choicesOf(field: ElicitationField): Choice[] | undefined {
  const titled = field.items ? field.items.anyOf : field.oneOf;
  if (titled) return titled.flatMap(({ const: value, title }) => (value === undefined ? [] : [choice(value, title)]));
  return (field.items?.enum ?? field.enum)?.map((value, index) => choice(value, field.enumNames?.[index]));
}

function choice(value: string, name = value): Choice {
  return { value, name: shown(name) };
}

interface FieldProperties {
  label: string;
  name: string;
  field: ElicitationField;
  required: boolean;
}

function Field(properties: FieldProperties) {
  const { label, name, field, required } = properties;
  const id = useId();
  const choices = choicesOf(field);
  const hint = field.description !== undefined && <span class="hint">{shown(field.description)}</span>;
  if (field.type === "array") {
    const chosen = Array.isArray(field.default) ? field.default : [];
    return (
      <fieldset class="field">
        <legend>{label}</legend>
        {choices?.map(({ value, name: named }) => (
          <label key={value} class="check">
            <input type="checkbox" name={name} value={value} defaultChecked={chosen.includes(value)} /> {named}
          </label>
        ))}
        {hint}
      </fieldset>
    );
  }
  return (
    <p class="field">
      <label for={id}>
        {label} {!required && field.type !== "boolean" && <span class="quiet">(optional)</span>}
      </label>
      {choices ? (
        <select id={id} name={name} required={required} defaultValue={String(field.default ?? "")}>
          <option value="">{required ? "choose …" : "nothing"}</option>
          {choices.map(({ value, name: named }) => (
            <option key={value} value={value} selected={value === field.default}>
              {named}
            </option>
          ))}
        </select>
      ) : (
        <FieldInput {...properties} id={id} />
      )}
      {hint}
    </p>
  );
}

function FieldInput({ id, name, field, required }: FieldProperties & { id: string }) {
  const { type, format, minimum, maximum, minLength, maxLength } = field;
  if (type === "boolean") return <input id={id} name={name} type="checkbox" defaultChecked={field.default === true} />;
  const value = typeof field.default === "string" || typeof field.default === "number" ? String(field.default) : "";
  const same = { id, name, required, autocomplete: "off" as const, defaultValue: value };
  if (type === "number" || type === "integer") {
    const bounds = { ...(minimum !== undefined && { min: minimum }), ...(maximum !== undefined && { max: maximum }) };
    return <input {...same} {...bounds} type="number" step={type === "integer" ? 1 : "any"} />;
  }
  const lengths = { ...(minLength !== undefined && { minLength }), ...(maxLength !== undefined && { maxLength }) };
  if (format === "email") return <input {...same} {...lengths} type="email" />;
  if (format === "uri") return <input {...same} {...lengths} type="url" />;
  if (format === "date") return <input {...same} type="date" />;
  if (format === "date-time") return <input {...same} type="datetime-local" />;
  return <input {...same} {...lengths} type="text" />;
}
