/**
 * The first run: what there is to work with on this machine, and what can be done about it.
 *
 * Invariant: nothing is written and nothing taken over unless a person says yes; without an answer everything works,
 * with the demo model if there is no other.
 */
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline/promises";
import type { OtherProgram, SetUp } from "../../types/app.ts";
import { toRotundaError } from "../../types/error.ts";
import type { JsonObject } from "../../types/json.ts";
import { makeDirectory } from "../../util/make-directory.ts";
import { maskSecrets } from "../../util/mask.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

/** Left in the state directory by the first look, so that no later start looks again. */
const MARK = "welcomed";

/** Nobody was welcomed before, and nothing is configured: what was said so far, if anything, the demo has answered. */
export async function isFirstRun(context: CommandContext): Promise<boolean> {
  const setUp = await context.setUp();
  const mark = join(setUp.stateDirectory, MARK);
  if (existsSync(mark)) return false;
  const { files } = await setUp.configuration();
  makeDirectory(setUp.stateDirectory, 0o700);
  writeFileSync(mark, "");
  return files.length === 0;
}

/** `rotunda setup`. Resolves with the exit code. */
export async function setup(context: CommandContext): Promise<number> {
  const setUp = await context.setUp();
  const programs = await tellFound(context, setUp);
  if (context.interactive) await offer(context, setUp, programs);
  else tellLines(context, setUp, programs);
  return 0;
}

/** Before the first conversation. Ctrl-C and the end of input mean: no. */
export async function welcome(context: CommandContext): Promise<void> {
  const { err, errStyle } = context.streams;
  err(`${errStyle.bold("Welcome to Rotunda.")} Nothing is set up yet. On this machine there is:\n\n`);
  const setUp = await context.setUp();
  await offer(context, setUp, await tellFound(context, setUp));
  err("Ask something, or type /help. rotunda setup shows this again.\n\n");
}

async function tellFound(context: CommandContext, setUp: SetUp): Promise<OtherProgram[]> {
  const { err, errStyle } = context.streams;
  const row = (name: string, text: string) => err(`  ${errStyle.dim(name.padEnd(9))} ${visible(text)}\n`);
  const [models, programs] = await Promise.all([modelsOf(context), setUp.otherPrograms()]);
  for (const text of models) row("model", text);
  if (models.length === 0) {
    row("model", "none: the demo answers, by fixed rules, with real tools on real files");
    row("", "export OPENAI_API_KEY=… (ANTHROPIC_, OPENROUTER_, GEMINI_ …), or start Ollama");
  }
  row("sandbox", await sandboxOf(context));
  for (const { program, path, servers, conversations, left } of programs) {
    const names = Object.keys(servers);
    const parts = [
      ...(names.length > 0 ? [`${counted(names.length, "MCP server")} (${names.join(", ")})`] : []),
      ...(conversations > 0 ? [`${counted(conversations, "conversation")}`] : []),
    ];
    row("found", `${program}: ${oneLine(parts.join(", ") || "nothing yet", 120)} in ${path}`);
    for (const text of left) row("", oneLine(text, 160));
  }
  err("\n");
  return programs;
}

async function modelsOf(context: CommandContext): Promise<string[]> {
  const models = (await (await context.app()).models()).filter(({ origin }) => origin !== "demo");
  return models.map(
    ({ id, origin, default: isDefault }) => `${id} (${origin})${isDefault ? ", answers by default" : ""}`,
  );
}

async function sandboxOf(context: CommandContext): Promise<string> {
  const level = await (await context.app()).sandboxLevel();
  if (level === "none") return "none: shell commands ask every time (apt-get install bubblewrap mends it)";
  return `${level === "bwrap" ? "bubblewrap" : "unshare"}: shell commands write in the working directory only, without network`;
}

async function offer(context: CommandContext, setUp: SetUp, programs: readonly OtherProgram[]): Promise<void> {
  const { err } = context.streams;
  for (const found of programs.filter(hasSomething)) {
    for (const [name, server] of Object.entries(found.servers)) err(`    ${visible(name)}: ${lineOf(server)}\n`);
    if (!(await says(`Take over what ${found.program} has? What it starts is asked about call by call. [y/N] `, false)))
      continue;
    try {
      const { importFrom } = await import("./import.ts");
      await importFrom(context, found.path, {});
    } catch (error) {
      err(`  It was not taken over: ${visible(toRotundaError(error).message)}\n`);
    }
  }
  if (existsSync(setUp.userConfig)) return;
  if (!(await says(`Write a commented ${setUp.userConfig}? [Y/n] `, true))) return;
  try {
    makeDirectory(dirname(setUp.userConfig));
    writeFileSync(setUp.userConfig, setUp.starter(), { flag: "wx", mode: 0o644 });
    err(`Wrote ${setUp.userConfig}\n`);
  } catch (error) {
    err(`  It was not written: ${visible(toRotundaError(error).message)}\n`);
  }
}

/** Where nobody can be asked: the lines that do the same. */
function tellLines({ streams: { err } }: CommandContext, setUp: SetUp, programs: readonly OtherProgram[]): void {
  for (const { path } of programs.filter(hasSomething)) err(`rotunda import ${visible(JSON.stringify(path))}\n`);
  if (!existsSync(setUp.userConfig)) err("rotunda init\n");
  err("rotunda doctor\n");
}

function hasSomething({ servers, models, conversations }: OtherProgram): boolean {
  return Object.keys(servers).length + models + conversations > 0;
}

/** What it starts or asks, in full but for secrets. */
function lineOf(server: JsonObject): string {
  const { command = "", args, url, env } = maskSecrets(server);
  const words = typeof url === "string" ? [url] : [command, ...(Array.isArray(args) ? args : [])].map(String);
  const names = typeof env === "object" && env !== null ? Object.keys(env) : [];
  return visible(`${words.join(" ").replaceAll("$$", "$")}${names.length > 0 ? `  (with ${names.join(", ")})` : ""}`);
}

async function says(question: string, otherwise: boolean): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const closed = new Promise<string>((resolve) => lines.once("close", () => resolve("n")));
    lines.once("SIGINT", () => lines.close());
    const said = (await Promise.race([lines.question(visible(question)), closed])).trim();
    return said === "" ? otherwise : /^y(?:es)?$/i.test(said);
  } finally {
    lines.close();
  }
}
