import { mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { describeChange } from "../../src/hub/changes.ts";
import { ListingReader, readListing } from "../../src/hub/definitions.ts";
import { JsonMeter } from "../../src/hub/json-meter.ts";
import { manifestKey, mergeListing, readManifest, writeManifest } from "../../src/hub/manifest.ts";
import type { ServerConfig } from "../../src/types/config.ts";
import type { JsonObject } from "../../src/types/json.ts";
import { temporaryDirectory } from "./support.ts";

function listed(name: string, description = "", inputSchema: JsonObject = { type: "object" }) {
  const [tool] = readListing([{ name, description, inputSchema }]).tools;
  if (!tool) throw new Error("not listed");
  return tool;
}

describe("M16: the budget of a schema", () => {
  it("leaves out a schema that is too deep, too wide or too long, and keeps the rest", () => {
    let deep: JsonObject = {};
    for (let i = 0; i < 100_000; i++) deep = { not: deep };
    const wide = { properties: Object.fromEntries(Array.from({ length: 20_001 }, (_, i) => [`p${i}`, true])) };
    const { tools, warnings } = readListing([
      { name: "deep", inputSchema: deep },
      { name: "wide", inputSchema: wide },
      { name: "long", inputSchema: { title: "x".repeat(256 * 1024 + 1) } },
      { name: "ok", inputSchema: { $ref: "http://127.0.0.1:9/never-fetched" } },
    ]);
    expect(tools.map((tool) => tool.name)).toEqual(["ok"]);
    expect(tools[0]?.input).toEqual({ type: "object", $ref: "http://127.0.0.1:9/never-fetched" });
    expect(warnings).toHaveLength(3);
    expect(warnings.join("\n")).toMatch(/deeper than 60[\s\S]*20000 nodes[\s\S]*262144 characters/);
  });

  it("M9: leaves out malformed entries and second ones of a name", () => {
    const { tools, warnings } = readListing([
      null,
      "text",
      { name: "" },
      { name: 1 },
      { name: "a", inputSchema: [] },
      { name: "b", description: 7 },
      { name: "c" },
      { name: "c", description: "again" },
    ]);
    expect(tools.map((tool) => [tool.name, tool.description])).toEqual([["c", ""]]);
    expect(warnings).toHaveLength(7);
  });

  it("bounds the whole listing of a server", () => {
    const reader = new ListingReader();
    const schema = { type: "object", description: "x".repeat(200_000) };
    for (let i = 0; i < 40; i++) reader.add([{ name: `t${i}`, inputSchema: schema }]);
    expect(reader.full).toBe(true);
    expect(reader.listing.tools.length).toBeLessThan(30);
    expect(reader.listing.warnings.join()).toMatch(/over the limits/);
  });

  it("shows invisible characters of a description to whoever reads it", () => {
    expect(listed("a", "safe\u202e\u{e0041}").description).toBe("safe\\u{202e}\\u{e0041}");
  });
});

describe("M22: x-mcp-header", () => {
  const string = { type: "string", "x-mcp-header": "Region" };
  const check = (inputSchema: JsonObject) => readListing([{ name: "t", inputSchema }]);

  it("takes tokens on primitive properties", () => {
    const nested = { type: "object", properties: { a: { type: "object", properties: { b: string } } } };
    expect(check({ type: "object", properties: { region: string } }).tools[0]?.headers).toBe(true);
    expect(check(nested).tools[0]?.headers).toBe(true);
  });

  it("does not take a property that is merely named so", () => {
    const schema = { type: "object", properties: { "x-mcp-header": { type: "string" } } };
    expect(check(schema).tools[0]?.headers).toBeUndefined();
    expect(check(schema).tools).toHaveLength(1);
  });

  it.each([
    ["a line break", { properties: { a: { type: "string", "x-mcp-header": "A\r\nB: c" } } }],
    ["a space", { properties: { a: { type: "string", "x-mcp-header": "A B" } } }],
    ["no text", { properties: { a: { type: "string", "x-mcp-header": 7 } } }],
    ["an object", { properties: { a: { type: "object", "x-mcp-header": "A" } } }],
    ["items", { properties: { a: { type: "array", items: string } } }],
    ["anyOf", { anyOf: [string] }],
    ["the root", { type: "object", "x-mcp-header": "A" }],
    ["twice", { properties: { a: string, b: { type: "string", "x-mcp-header": "REGION" } } }],
  ])("leaves out a tool that declares it with or in %s", (_what, schema) => {
    const { tools, warnings } = check(schema as JsonObject);
    expect(tools).toEqual([]);
    expect(warnings[0]).toMatch(/x-mcp-header/);
  });
});

describe("M12: pins", () => {
  it("does not see a change in the order of keys", () => {
    const one = listed("t", "d", { type: "object", properties: { a: {}, b: {} } });
    const two = listed("t", "d", { properties: { b: {}, a: {} }, type: "object" });
    expect(one.fingerprint).toBe(two.fingerprint);
  });

  it("keeps the pinned definition of a changed tool until it is accepted or comes back", () => {
    const first = listed("t", "reads a file");
    const second = listed("t", "reads a file and sends it away");
    const third = listed("t", "harmless again");
    const changed = mergeListing([first], [second]);
    expect(changed[0]?.previous?.description).toBe("reads a file");
    const again = mergeListing(changed, [third]);
    expect(again[0]?.previous?.description).toBe("reads a file");
    expect(mergeListing(again, [first])[0]?.previous).toBeUndefined();
  });

  it("remembers a tool that was gone for a while", () => {
    const first = listed("t", "one");
    const gone = mergeListing([first], []);
    expect(gone[0]?.absent).toBe(true);
    const back = mergeListing(gone, [listed("t", "two")]);
    expect(back[0]?.absent).toBeUndefined();
    expect(back[0]?.previous?.description).toBe("one");
  });

  it("tells the difference line by line", () => {
    const before = listed("t", "one\ntwo", { type: "object", properties: { path: { type: "string" } } });
    const now = listed("t", "one\n2", { type: "object", properties: { path: { type: "string" }, url: {} } });
    const text = describeChange(before, now);
    expect(text).toContain("- two\n+ 2");
    expect(text).toContain('+     "url": {}');
    expect(text).not.toContain("- one");
    expect(describeChange(before, { ...before, description: "x\n".repeat(100_000) }).length).toBeLessThan(5000);
  });
});

describe("the manifest", () => {
  const config: ServerConfig = {
    name: "s",
    transport: "stdio",
    command: "node",
    args: ["a"],
    env: { TOKEN: "one" },
    disabled: false,
    origin: "test",
  };

  it("is keyed by everything that can change the server, and shows no value", () => {
    const key = manifestKey(config);
    expect(key).toMatch(/^[0-9a-f]{32}$/);
    const variants: Partial<ServerConfig>[] = [
      { name: "t" },
      { command: "deno" },
      { args: ["b"] },
      { env: { TOKEN: "two" } },
      { env: { OTHER: "one" } },
      { cwd: "/tmp" },
      { transport: "http", url: "https://a.example" },
      { transport: "http", url: "https://b.example" },
      { headers: { Authorization: "x" } },
    ];
    const keys = variants.map((variant) => manifestKey({ ...config, ...variant }));
    expect(new Set([key, ...keys]).size).toBe(variants.length + 1);
    expect(manifestKey({ ...config, timeout: 5, tools: { "*": { access: "read" } } })).toBe(key);
  });

  it("is written whole, for its owner only, and read back equal", async () => {
    const directory = join(temporaryDirectory(), "hub");
    const tools = mergeListing([listed("a", "old"), listed("b")], [listed("a", "new")]);
    const manifest = { tools, era: { kind: "legacy" as const, at: 5 } };
    await writeManifest(directory, "k", manifest);
    expect(statSync(join(directory, "k.json")).mode & 0o777).toBe(0o600);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(readdirSync(directory)).toEqual(["k.json"]);
    expect(readManifest(directory, "k")).toEqual(manifest);
  });

  it("counts as absent when it cannot be read", () => {
    const directory = temporaryDirectory();
    const texts = ["", "{", "[]", '{"version":2,"tools":[]}', '{"version":1}', '{"version":1,"tools":[7]}'];
    for (const text of [...texts, `{"version":1,"tools":${"[".repeat(200)}${"]".repeat(200)}}`]) {
      writeFileSync(join(directory, "k.json"), text);
      expect(readManifest(directory, "k")).toBeUndefined();
    }
    expect(readManifest(directory, "none")).toBeUndefined();
  });

  it("does not grow without bound", async () => {
    const directory = join(temporaryDirectory(), "hub");
    mkdirSync(directory);
    for (let i = 0; i < 300; i++) {
      writeFileSync(join(directory, `${i}.json`), "{}");
      utimesSync(join(directory, `${i}.json`), i, i);
    }
    await writeManifest(directory, "newest", { tools: [] });
    const names = readdirSync(directory);
    expect(names).toHaveLength(256);
    expect(names).toContain("newest.json");
    expect(names).not.toContain("0.json");
  });
});

describe("the JSON meter", () => {
  it("counts depth and parts over any chunks, without what stands in texts", () => {
    const text = Buffer.from(JSON.stringify({ a: '[[{{,,"\\', b: [1, 2, [3]] }));
    for (let size = 1; size <= text.length; size++) {
      const meter = new JsonMeter();
      for (let at = 0; at < text.length; at += size) meter.feed(text, at, Math.min(at + size, text.length));
      expect(meter.excess).toBeUndefined();
    }
    const meter = new JsonMeter();
    meter.feed(Buffer.from("[".repeat(1001)));
    expect(meter.excess).toMatch(/deeper than 1000/);
    meter.reset();
    meter.feed(Buffer.from(`[${"1,".repeat(100_000)}`));
    expect(meter.excess).toMatch(/100000 parts/);
  });
});
