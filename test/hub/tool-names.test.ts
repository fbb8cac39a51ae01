import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NameIndex, parseToolName, toolName } from "../../src/hub/tool-names.ts";

const allowed = /^[A-Za-z0-9_-]{1,64}$/;

function named(server: string, serverName: string) {
  return { name: toolName(server, serverName), server, serverName };
}

describe("M14 G13, N12: tool names", () => {
  it("keeps a plain pair as server__tool and splits it at the first __", () => {
    expect(toolName("notion", "get_page")).toBe("notion__get_page");
    expect(parseToolName("notion__get_page")).toEqual({ server: "notion", tool: "get_page" });
    expect(parseToolName("notion__a__b")).toEqual({ server: "notion", tool: "a__b" });
    expect(parseToolName("a___b")).toEqual({ server: "a", tool: "_b" });
  });

  it("does not let a_b + c and a + b_c collide", () => {
    const pairs = [
      ["a_b", "c"],
      ["a", "b_c"],
      ["a__b", "c"],
      ["a", "b__c"],
      ["a_", "b"],
      ["a", "_b"],
      ["a.b", "c"],
      ["a b", "c"],
    ] as const;
    expect(new Set(pairs.map(([server, tool]) => toolName(server, tool))).size).toBe(pairs.length);
  });

  it("maps what the pattern does not allow, and never into a plain name", () => {
    for (const [server, tool] of [
      ["s", "x".repeat(200)],
      ["s", "名前"],
      ["", ""],
      ["s", ""],
      ["ends_", "t"],
      ["has__two", "t"],
      ["s", "looks_mapped_0123456789ab"],
    ] as const) {
      const name = toolName(server, tool);
      expect(name).toMatch(allowed);
      expect(name).toMatch(/_[0-9a-f]{12}$/);
      expect(parseToolName(name)).toBeUndefined();
    }
    // A server that knows the mapped name of another server's tool cannot take it.
    const victim = toolName("my.server", "read");
    const [server = "", tool = ""] = victim.split("__");
    expect(toolName(server, tool)).not.toBe(victim);
  });

  it("any pair has one allowed name, and a plain name leads back to its pair", () => {
    const part = fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[A-Za-z0-9_.-]{0,40}$/));
    fc.assert(
      fc.property(part, part, (server, tool) => {
        const name = toolName(server, tool);
        expect(name).toMatch(allowed);
        expect(toolName(server, tool)).toBe(name);
        const parsed = parseToolName(name);
        if (parsed) expect(parsed).toEqual({ server, tool });
      }),
      { numRuns: 3000 },
    );
  });

  it("gives 100,000 random pairs 100,000 names", () => {
    const pairs = new Set<string>();
    const names = new Set<string>();
    const alphabet = ["a", "b", "_", "__", ".", "-", "é", " ", "x".repeat(30)];
    let seed = 7;
    const random = (limit: number) => {
      seed = (seed + 0x6d2b79f5) | 0;
      let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
    };
    const part = () => Array.from({ length: 1 + random(9) }, () => alphabet[random(alphabet.length)]).join("");
    while (pairs.size < 100_000) {
      const [server, tool] = [part(), part()];
      const before = pairs.size;
      pairs.add(JSON.stringify([server, tool]));
      if (pairs.size > before) names.add(toolName(server, tool));
    }
    expect(names.size).toBe(100_000);
  });
});

describe("S51: accepted spellings", () => {
  const tools = [named("a_b", "c"), named("a", "b_c"), named("my.server", "read file"), named("files", "read")];
  const index = new NameIndex(tools);

  it("finds server__tool, server:tool, server_tool and the exact name", () => {
    for (const spelling of ["files__read", "files:read", "files_read"]) expect(index.find(spelling)).toBe(tools[3]);
    expect(index.find("my.server__read file")).toBe(tools[2]);
    expect(index.find("my.server:read file")).toBe(tools[2]);
    expect(index.find(toolName("my.server", "read file"))).toBe(tools[2]);
    expect(index.find("a_b__c")).toBe(tools[0]);
    expect(index.find("a:b_c")).toBe(tools[1]);
  });

  it("finds nothing where a spelling fits two tools, and nothing unknown", () => {
    expect(index.find("a_b_c")).toBeUndefined();
    expect(index.find("files__write")).toBeUndefined();
    expect(index.find("__proto__")).toBeUndefined();
  });
});
