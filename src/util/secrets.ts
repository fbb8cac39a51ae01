/**
 * Redaction: known secret values are replaced before anything is logged, stored, told to a model or shown.
 *
 * Invariant: a text that has passed `redact` holds none of the registered values.
 */

export type Redact = (text: string) => string;

const MINIMUM_LENGTH = 6;

/** A redactor for the given values. Values under six characters are ignored: they would blank ordinary words. */
export function createRedactor(values: readonly string[]): Redact {
  const known = [...new Set(values.map((value) => value.trim()).filter((value) => value.length >= MINIMUM_LENGTH))];
  if (known.length === 0) return (text) => text;
  known.sort((a, b) => b.length - a.length);
  const pattern = new RegExp(known.map((value) => value.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")).join("|"), "g");
  return (text) => text.replace(pattern, "***");
}

/** A key as a person may see it: never more than its last four characters, and those only of long ones. */
export function mask(value: string): string {
  return value.length >= 16 ? `****${value.slice(-4)}` : "****";
}
