/** Texts on one line. */
import { expect, test } from "vitest";
import { oneLine } from "../../src/util/text.ts";

test("one line: blanks put together, cut with a mark, and a long text costs no more than its beginning", () => {
  expect(oneLine("  two\n\twords ")).toBe("two words");
  expect(oneLine("abcdef", 4)).toBe("abc…");
  expect(oneLine("abcd", 4)).toBe("abcd");
  // What lies behind the beginning is not looked at, and yet told to be there.
  expect(oneLine(`a${" ".repeat(1_000)}b`, 4)).toBe("a…");
  expect(oneLine("y\n".repeat(5_000_000), 8)).toBe("y y y y…");
});
