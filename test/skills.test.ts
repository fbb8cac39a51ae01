/** Skills: found near and far, named in the prompt, read on demand. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createRotunda } from "../src/index.ts";
import { callOf, later, modelOf, say, temporaryFolder } from "./support.ts";

function skill(base: string, folder: string, text: string): void {
  mkdirSync(join(base, folder), { recursive: true });
  writeFileSync(join(base, folder, "SKILL.md"), text);
}

test("name and description are in the prompt, the body on demand; the workspace's wins over the user's", async () => {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  skill(
    workspace,
    ".agents/skills/release",
    "---\nname: release\ndescription: >\n  How to\n  release\n---\nTag it first.\n",
  );
  skill(join(root, "home"), ".claude/skills/release", "---\nname: release\ndescription: weaker\n---\nx\n");
  skill(join(root, "home"), ".claude/skills/poems", "---\ndescription: Writes poems\n---\nRhyme.\n");
  skill(workspace, ".agents/skills/broken", "no front matter");
  const model = modelOf([callOf(["skill", { name: "release" }], ["skill", { name: "../../etc" }]), say("done")]);
  const rotunda = await createRotunda({
    workspace,
    stateDirectory: join(root, "state"),
    environment: { HOME: join(root, "home") },
    models: [model],
  });
  later(() => rotunda.close());
  const { response } = await rotunda.run("go");
  const [request] = model.requests;
  expect(request?.instructions).toContain("- poems: Writes poems\n- release: How to release");
  expect(request?.instructions).not.toContain("Tag it first");
  expect(response.output[0]).toMatchObject({ status: "completed", output: expect.stringContaining("Tag it first.") });
  expect(response.output[1]).toMatchObject({ status: "failed", output: expect.stringContaining("there is no skill") });
});
