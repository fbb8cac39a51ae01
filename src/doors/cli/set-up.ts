/** Commands before anything runs: trust, init, config show. */
import { existsSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import type { TrustItem } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import { withoutPassword } from "../../util/mask.ts";
import { createRedactor } from "../../util/secrets.ts";
import { visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

interface TrustFlags {
  yes?: boolean;
  list?: boolean;
  revoke?: boolean;
}

export async function trust(context: CommandContext, path: string | undefined, flags: TrustFlags): Promise<number> {
  const setUp = await context.setUp();
  const { out, err } = context.streams;
  const wanted = resolve(context.workspace, path ?? ".");
  if (flags.list) {
    const trusted = setUp.trusted();
    for (const entry of trusted) out(`${visible(`${entry.file}  ${entry.what}`)}  ${entry.trustedAt}\n`);
    if (trusted.length === 0) err("No file is trusted.\n");
    return 0;
  }
  if (flags.revoke) {
    err(`No longer trusted: ${setUp.revoke(wanted)}\n`);
    return 0;
  }
  const items = (await setUp.untrusted()).filter((item) => item.file === wanted || item.file.startsWith(`${wanted}/`));
  if (items.length === 0) {
    err("Nothing here waits to be trusted.\n");
    return 0;
  }
  for (const item of items) out(describe(item));
  if (
    !flags.yes &&
    !(await confirmed(context, `Trust ${items.length === 1 ? "this" : `these ${items.length}`}? [y/N] `))
  ) {
    err("Nothing was trusted.\n");
    return 1;
  }
  setUp.trust(items);
  err(`Trusted: ${items.length}. A change to any of them asks again.\n`);
  return 0;
}

/** In full, so that nothing hides behind an ellipsis. */
function describe(item: TrustItem): string {
  return `${visible(item.file)}: ${visible(item.what)}\n  ${visible(JSON.stringify(item.content, addressesBare, 2)).replaceAll("\n", "\n  ")}\n`;
}

/** What would let somebody in is known to whoever wrote the file, and nobody else's affair at this screen. */
function addressesBare(_key: string, value: unknown): unknown {
  return typeof value === "string" ? withoutPassword(value) : value;
}

async function confirmed(context: CommandContext, question: string): Promise<boolean> {
  if (!context.interactive) {
    throw new RotundaError("approval_needed", "nobody is here to confirm it", {
      remedy: "Read it, then: rotunda trust --yes",
    });
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await lines.question(question)).trim());
  } finally {
    lines.close();
  }
}

export async function init(context: CommandContext, flags: { force?: boolean }): Promise<number> {
  const path = join(context.workspace, "rotunda.yaml");
  await clearPlace(context.workspace, path);
  if (existsSync(path) && !flags.force) {
    throw new RotundaError("usage", `${path} is already there`, { remedy: "rotunda init --force writes over it." });
  }
  writeFileSync(path, (await context.setUp()).starter(), { mode: 0o644 });
  context.streams.err(`Wrote ${path}. Edit it, then: rotunda doctor\n`);
  return 0;
}

/** A folder of that name is as a rule a stand-in of the sandbox, which a crash has left or which guards the file at this moment. */
async function clearPlace(workspace: string, path: string): Promise<void> {
  const { clearStandIns, isPlaceholder } = await import("../../util/sandbox-guards.ts");
  clearStandIns(workspace);
  if (!isFolder(path)) return;
  const running = isPlaceholder(path);
  throw new RotundaError("usage", running ? "a command in the sandbox is running here" : `${path} is a folder`, {
    remedy: running
      ? `Until it has ended, a folder holds the place of ${path}. Then try again.`
      : "Move it away, then try again.",
  });
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

export async function configShow(
  context: CommandContext,
  flags: { origin?: boolean; json?: boolean; config?: string },
): Promise<number> {
  const setUp = await context.setUp();
  const { config, origins, files } = await setUp.configuration(flags.config);
  const { secrets, warnings, ...shown } = config;
  const redact = createRedactor(secrets);
  const { out, err } = context.streams;
  const safe = JSON.parse(redact(JSON.stringify({ ...shown, environment: undefined, untrusted: undefined }))) as object;
  if (flags.json) out(`${JSON.stringify({ files, ...(flags.origin && { origins }), config: safe })}\n`);
  else {
    out(files.length === 0 ? "# no configuration file; defaults\n" : files.map((file) => `# ${file}\n`).join(""));
    out(await setUp.yaml(safe));
    if (flags.origin) for (const [key, origin] of Object.entries(origins)) out(`# ${visible(`${key}: ${origin}`)}\n`);
  }
  for (const warning of warnings) err(`${visible(warning)}\n`);
  return 0;
}
