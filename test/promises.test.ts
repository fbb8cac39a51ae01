/** The gate: no promise without a proof, no citation of a promise that nobody made. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { promises } from "./promises.ts";

const TITLE = /\b(?:test|it|describe)(?:\.\w+(?:\([^)]*\))?)*\(\s*(["'`])((?:(?!\1).)*)\1/gs;
const CITATION = /\b[NFPSCBGUMKDTVW]\d{1,2}\b/g;

/** Promises cited in the titles of a source text. */
function citations(text: string): string[] {
  return [...text.matchAll(TITLE)].flatMap(([, , title = ""]) => title.match(CITATION) ?? []);
}

function cited(): Set<string> {
  const files = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".test.ts"),
  );
  return new Set(files.flatMap((name) => citations(readFileSync(join(import.meta.dirname, name), "utf8"))));
}

/** Promises that no title cites, and citations that no promise has. */
function gaps(proofs: ReadonlySet<string>): { unproven: string[]; unknown: string[] } {
  const due = promises.filter((promise) => promise.later === undefined).map((promise) => promise.id);
  const known = new Set(promises.map((promise) => promise.id));
  return {
    unproven: due.filter((id) => !proofs.has(id)),
    unknown: [...proofs].filter((id) => !known.has(id)),
  };
}

test("every promise has a proof, and every proof a promise", () => {
  expect(gaps(cited())).toEqual({ unproven: [], unknown: [] });
});

test("the gate can fail", () => {
  const without = cited();
  without.delete("F6");
  without.add("N99");
  expect(gaps(without)).toEqual({ unproven: ["F6"], unknown: ["N99"] });
  expect(citations('test("X9 N12 does it", () => {}); test.each([1])(`U3 %s`, run)')).toEqual(["N12", "U3"]);
});
