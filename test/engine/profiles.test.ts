/** Profiles: the four built-in ones, those of the configuration, and what they make of a prompt. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { toolsOf } from "../../src/engine/advance.ts";
import { instructionsOf } from "../../src/engine/prompt.ts";
import { createProfiles } from "../../src/profiles/profiles.ts";
import { projectInstructions } from "../../src/profiles/project.ts";
import { createBuiltinTools } from "../../src/tools/builtin.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { callOf, engineWith, modelOf, say, temporaryFolder, toolOf } from "../support.ts";

const profiles = (configured = {}, rest = {}) =>
  createProfiles({ configured, defaultProfile: "general", advice: true, ...rest });
const tools = createBuiltinTools({ sandbox: () => detectSandbox("none"), profiles: profiles().list() });

describe("the built-in profiles", () => {
  test.each([
    ["general", 0.7, 20, ["read", "write", "edit", "bash", "glob", "grep", "TodoWrite", "task", "read_output"]],
    ["explore", 0.3, 15, ["read", "bash", "glob", "grep", "read_output"]],
    ["plan", 0.5, 10, ["read", "glob", "read_output"]],
    ["execute", 0.5, 20, ["read", "write", "edit", "bash", "glob", "grep", "TodoWrite", "task", "read_output"]],
  ])("F4 %s: temperature %f, %i turns and its tools", async (name, temperature, turns, offered) => {
    const profile = await profiles().get(name);
    expect(profile).toMatchObject({ defaults: { temperature, maxOutputTokens: 4_096 }, limits: { turns } });
    expect(toolsOf(profile, tools).map((tool) => tool.name)).toEqual(offered);
  });

  test("F5 the plan has its sections, explore and plan change nothing, execute is careful", async () => {
    const plan = await profiles().get("plan");
    for (const section of [
      "Overview",
      "Implementation Steps",
      "Files to Modify",
      "Testing Strategy",
      "Potential Risks",
    ]) {
      expect(plan.instructions).toContain(`**${section}**`);
    }
    expect([plan.readOnly, (await profiles().get("explore")).readOnly]).toEqual([true, true]);
    expect((await profiles().get("execute")).instructions).toMatch(/correctness and safety/i);
    await expect(profiles().get("nobody")).rejects.toMatchObject({ code: "profile_not_found" });
  });

  test("F13 advice of the offered tools joins the prompt, and of no others", async () => {
    const textFor = async (name: string, rest = {}) => {
      const profile = await profiles({}, rest).get(name);
      const node = { settings: {}, workspace: "/work" } as Parameters<typeof instructionsOf>[0]["node"];
      return instructionsOf({ profile, node, tools: toolsOf(profile, tools), projectInstructions: "" });
    };
    const adviceOf = (name: string) => tools.find((tool) => tool.name === name)?.advice ?? "none";
    const explore = await textFor("explore");
    expect(explore).toContain("# Tool Usage Best Practices");
    expect(explore).toContain(adviceOf("grep"));
    expect(explore).not.toContain(adviceOf("write"));
    expect(await textFor("explore", { advice: false })).not.toContain("Best Practices");
    expect(await textFor("explore")).toBe(explore);
  });
});

describe("configured profiles", () => {
  test("begin with another one, and cannot become less read-only", async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "reviewer.md"), "Review with care.\n");
    const configured = {
      reviewer: { instructions: join(folder, "reviewer.md"), tools: ["read", "files__*"], maxTurns: 3, temperature: 0 },
      scout: { extends: "explore", readOnly: false, tools: ["*"] },
    };
    expect(await profiles(configured).get("reviewer")).toMatchObject({
      instructions: "Review with care.",
      temperature: 0,
      limits: { turns: 3 },
      readOnly: false,
    });
    const scout = await profiles(configured).get("scout");
    expect(scout.readOnly).toBe(true);
    expect(toolsOf(scout, tools).some((tool) => tool.access === "write")).toBe(false);
    await expect(profiles({ a: { extends: "b" }, b: { extends: "a" } }).get("a")).rejects.toThrow(/circle/);
  });

  test("MCP servers are chosen by glob", async () => {
    const files = toolOf("files__read", async () => ({ text: "" }), { server: "files", serverName: "read" });
    const notes = toolOf("notes__read", async () => ({ text: "" }), { server: "notes", serverName: "read" });
    const profile = await profiles({ one: { servers: ["fi*"] } }).get("one");
    expect(toolsOf(profile, [files, notes]).map((tool) => tool.name)).toEqual(["files__read"]);
  });
});

test("AGENTS.md from the git root down, CLAUDE.md where there is none", async () => {
  const root = temporaryFolder();
  const { mkdirSync } = await import("node:fs");
  mkdirSync(join(root, ".git"));
  mkdirSync(join(root, "a", "b"), { recursive: true });
  writeFileSync(join(root, "AGENTS.md"), "root rules");
  writeFileSync(join(root, "CLAUDE.md"), "not read");
  writeFileSync(join(root, "a", "b", "CLAUDE.md"), "inner rules");
  const text = await projectInstructions(join(root, "a", "b"));
  expect(text.indexOf("root rules")).toBeGreaterThan(-1);
  expect(text.indexOf("inner rules")).toBeGreaterThan(text.indexOf("root rules"));
  expect(text).not.toContain("not read");
});

test("N16 a long result goes to the model as head, tail and a note, and is read back in pieces", async () => {
  const lines = Array.from({ length: 3_000 }, (_, n) => `line ${n + 1}`).join("\n");
  const big = toolOf("big", async () => ({ text: lines }));
  const model = modelOf([
    callOf(["big", {}]),
    (request) => {
      const note = JSON.stringify(request.history.at(-1)?.entries.at(-1)?.item);
      const reference = /read_output \{\\*"call\\*": \\*"(\w+)/.exec(note)?.[1] ?? "";
      return callOf(["read_output", { call: reference, from: 1_500, to: 1_501 }]);
    },
    say("done"),
  ]);
  const readOutput = tools.find((tool) => tool.name === "read_output");
  if (!readOutput) throw new Error("no read_output");
  const { engine } = await engineWith({ model, toolList: [big, readOutput] });
  const { id } = await engine.start({ door: "test", workspace: "/", input: "go" });
  await engine.wait(id);
  const [first, second] = (await engine.get(id)).output;
  const clipped = first?.type === "mcp_call" ? (first.output ?? "") : "";
  expect(clipped.length).toBeLessThan(8_400);
  expect(clipped).toMatch(/^line 1\n[\s\S]*of \d+ characters left out[\s\S]*line 3000$/);
  expect(second).toMatchObject({ status: "completed", output: expect.stringContaining("line 1500\nline 1501") });
});
