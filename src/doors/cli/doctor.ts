/**
 * `rotunda doctor [--repair]`: what works here, and whether everything that was stored is what it was.
 *
 * Invariant: without `--repair` nothing is changed. The exit code is 1 as long as something is at fault, the database
 * included; what `--repair` could mend is no longer at fault.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { DatabaseDoctor, Examination, Repair } from "../../types/doctor.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { readServerFile } from "../../util/server-file.ts";
import { counted, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import type { Finding } from "./doctor-checks.ts";

interface DoctorFlags {
  repair?: boolean;
  online?: boolean;
  json?: boolean;
  config?: string;
}

export async function doctor(context: CommandContext, flags: DoctorFlags): Promise<number> {
  const { config } = await (await context.setUp()).configuration(flags.config).catch(() => ({ config: undefined }));
  if (config?.database !== undefined) return withoutFile(context, flags);
  const database = await context.doctor();
  const repaired = flags.repair ? await database.repair(progress(context)) : undefined;
  const examined = await database.examine(progress(context));
  const findings = [...checkDatabase(examined, repaired), ...staleFiles(dirname(examined.path))];
  // What keeps the database from being opened has been said, with the way out of it.
  const isSaid = (code: string) => code === "storage_damaged" && findings.some(({ state }) => state === "fault");
  findings.push(...(await others(context, flags, isSaid)));
  if (flags.json) {
    context.streams.out(`${JSON.stringify(repaired ? { findings, examined, repaired } : { findings, examined })}\n`);
  } else for (const finding of findings) context.streams.out(line(finding, context));
  return findings.some(({ state }) => state === "fault") ? 1 : 0;
}

/** On Postgres: its pages are its own affair, and what its rows say is checked whenever they are read. */
async function withoutFile(context: CommandContext, flags: DoctorFlags): Promise<number> {
  if (flags.repair) {
    throw new RotundaError("usage", "--repair is for the built-in database: this configuration names another one", {
      remedy: "Restore a damaged Postgres database from its backup.",
    });
  }
  const findings = await others(context, flags);
  if (flags.json) context.streams.out(`${JSON.stringify({ findings })}\n`);
  else for (const finding of findings) context.streams.out(line(finding, context));
  return findings.some(({ state }) => state === "fault") ? 1 : 0;
}

/** They need the app, and so a database that can be opened. */
async function others(
  context: CommandContext,
  { config, online }: DoctorFlags,
  isSaid: (code: string) => boolean = () => false,
): Promise<Finding[]> {
  try {
    await context.app(config === undefined ? {} : { config });
  } catch (thrown) {
    const { code, message, remedy } = toRotundaError(thrown);
    if (isSaid(code)) return [];
    return [{ name: "start", state: "fault", text: message, ...(remedy !== undefined && { remedy }) }];
  }
  return (await import("./doctor-checks.ts")).checkAll(context, { online: online === true });
}

function line({ name, state, text, remedy }: Finding, { streams: { outStyle } }: CommandContext): string {
  const mark = state === "ok" ? outStyle.green("✓") : state === "warning" ? outStyle.yellow("!") : outStyle.red("✗");
  return `${mark} ${visible(name)}: ${visible(text)}\n${remedy === undefined ? "" : `    ${visible(remedy)}\n`}`;
}

/** Milliseconds between two words about long work. */
const BEAT = 1_000;

/** On stderr, and only where it takes long. */
function progress({ streams: { err } }: CommandContext): Parameters<DatabaseDoctor["examine"]>[0] {
  let told = performance.now();
  return (share, what) => {
    if (performance.now() - told < BEAT) return;
    told = performance.now();
    err(`${Math.round(share * 100)} % ${what}\n`);
  };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

function checkDatabase(examined: Examination, repaired: Repair | undefined): Finding[] {
  const { path, absent, bytes, responses, conversations } = examined;
  const name = "database";
  if (absent) return [{ name, state: "ok", text: `${path} (nothing stored yet)` }];
  const findings = [...(repaired ? repairs(repaired) : []), ...damages(examined)];
  if (findings.some(({ state }) => state === "fault")) return findings;
  const size = `${megabytes(bytes.file)} and ${megabytes(bytes.log)} of log`;
  const text = `${path}: ${counted(responses, "response")} and ${counted(conversations, "conversation")} are what was stored, ${size}`;
  return [...findings, { name, state: "ok", text }];
}

const REPAIR = "rotunda doctor --repair takes it out, keeps it aside and serves the rest. Copy the file first.";
const RESTORE = "Restore the file from a backup: rotunda doctor --repair finds nothing in it that it could read.";

function damages({ path, unreadable, lost, pages, damaged, rows, audit }: Examination): Finding[] {
  const remedy = lost ? RESTORE : REPAIR;
  const fault = (text: string): Finding => ({ name: "database", state: "fault", text, remedy });
  const findings: Finding[] = [];
  if (unreadable !== null) findings.push(fault(`${path} cannot be read: ${unreadable}`));
  if (pages.length > 0) findings.push(fault(`damaged pages (${pages.length} or more): ${pages[0]}`));
  for (const { id, why, logOnly } of damaged.slice(0, 20)) {
    findings.push(fault(`response ${id}: ${why}${logOnly ? " (its items are whole)" : ""}`));
  }
  if (damaged.length > 20) findings.push(fault(`and ${counted(damaged.length - 20, "more response")}`));
  if (rows.length > 0) findings.push(fault(`damaged rows: ${rows.slice(0, 20).join(", ")}`));
  if (audit !== null) {
    const text = `the audit log is broken: ${audit}`;
    // Nobody but whoever wrote it could say what stood there.
    findings.push({ name: "audit", state: "warning", text, remedy: "rotunda audit verify; a break is never mended." });
  }
  return findings;
}

function repairs({ kept, quarantined, folder, logs, vouched, rows, moved, lost }: Repair): Finding[] {
  const findings: Finding[] = [];
  const say = (text: string) => void findings.push({ name: "repair", state: "warning", text });
  if (kept !== null) say(`what could be read was copied to a new file; the damaged one is ${kept}`);
  for (const [table, count] of Object.entries(lost)) say(`${table}: rows (${count} or more) could not be read`);
  for (const { id, why } of quarantined) say(`response ${id} was taken out: ${why}`);
  for (const id of logs) say(`the log of ${id} was put together anew out of its items`);
  for (const id of vouched) say(`only the hash of ${id} was damaged; a response below it holds the right one`);
  if (rows.length > 0) say(`taken out: ${rows.join(", ")}`);
  if (moved.length > 0) say(`these conversations go on from an earlier response: ${moved.join(", ")}`);
  if (folder !== null) say(`what was taken out lies in ${folder}`);
  return findings;
}

/** Files that whoever wrote them should have taken away. */
function staleFiles(state: string): Finding[] {
  if (!existsSync(state)) return [];
  const stale = readdirSync(state).filter((name) => {
    if (name === "server.json") return readServerFile(state) === undefined;
    return /\.tmp$|^rotunda\.db\.(?:damaged|repaired)/.test(name) && !/-(?:wal|shm)$/.test(name);
  });
  return stale.map((name) => ({
    name: "files",
    state: "warning" as const,
    text: `${join(state, name)} is left over from a process that is gone`,
    remedy:
      name === "server.json" ? "The next server writes its own over it." : "Remove it when you no longer need it.",
  }));
}
