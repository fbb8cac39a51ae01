/** A program of its own that runs one bash call, to be killed by a test: `bash-caller.ts LEVEL WORKSPACE COMMAND`. */
import { createBashTool } from "../../src/tools/bash.ts";
import { detectSandbox, type SandboxLevel } from "../../src/util/sandbox.ts";
import { context } from "./context.ts";

const [level = "none", workspace = "/nonexistent", command = "true"] = process.argv.slice(2);
const tool = createBashTool({ sandbox: () => detectSandbox("required", [level as SandboxLevel]) });
const { text } = await tool.run({ command }, context(workspace));
process.stdout.write(text);
