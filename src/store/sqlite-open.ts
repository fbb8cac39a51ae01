/**
 * Opening the SQLite file, its settings and its migrations, and SQLite's errors as ours.
 *
 * Invariant: a database that this returns is in WAL mode with `synchronous=FULL` and at the newest schema, and what
 * is deleted in it is overwritten.
 */

import { closeSync, openSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { RotundaError, toRotundaError } from "../types/error.ts";
import { makeDirectory } from "../util/make-directory.ts";
import { migrations } from "./schema.ts";

/** Chosen by measurement (docs/decisions/storage.md): small commits touch few bytes, long items stay in few pages. */
const PAGE_SIZE = 1024;
/** Milliseconds that one statement may block this process while another process commits. */
const BUSY_TIMEOUT = 20;
const OPEN_ATTEMPTS = 200;

const SETTINGS = `PRAGMA page_size = ${PAGE_SIZE}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  PRAGMA secure_delete = ON; PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864`;

/** Opens and migrates. Several processes may do this at once on a file that does not exist yet. */
export async function openDatabase(path: string): Promise<DatabaseSync> {
  makePrivate(path);
  for (let attempt = 1; ; attempt++) {
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT });
      db.exec(SETTINGS);
      migrate(db, path);
      return db;
    } catch (error) {
      if (db?.isOpen) db.close();
      if (!isBusy(error) || attempt >= OPEN_ATTEMPTS) throw explainOpen(error, path);
      await sleep(5 + Math.random() * 20);
    }
  }
}

/** Opens a database that this process has had open before. */
export function reopenDatabase(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT });
  try {
    db.exec(SETTINGS);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** The system could not bring the log to the disk. */
export function isSyncFailure(error: unknown): boolean {
  const code = error instanceof Error && "errcode" in error ? Number((error as SqliteError).errcode) : 0;
  return code === IOERR_FSYNC || code === IOERR_DIR_FSYNC;
}

const IOERR_FSYNC = 1_034;
const IOERR_DIR_FSYNC = 1_290;

/** Made by us and for us alone, before SQLite makes it for everybody who may read the directory. */
function makePrivate(path: string): void {
  try {
    makeDirectory(dirname(path), 0o700);
    closeSync(openSync(path, "a", 0o600));
  } catch (error) {
    throw notWritable(error, path);
  }
}

function notWritable(cause: unknown, path: string): RotundaError {
  return new RotundaError("storage_failed", `the database ${path} cannot be opened for writing`, {
    cause,
    remedy: "Check the directory's permissions and that the disk is not read-only, or set ROTUNDA_HOME.",
  });
}

function migrate(db: DatabaseSync, path: string): void {
  const version = () => Number(db.prepare("PRAGMA user_version").get()?.user_version ?? 0);
  if (version() === migrations.length) return;
  db.exec("BEGIN IMMEDIATE");
  try {
    const from = version();
    if (from > migrations.length) {
      throw new RotundaError("storage_failed", `the database ${path} was made by a newer Rotunda`, {
        remedy: "Upgrade Rotunda, or set ROTUNDA_HOME to another directory.",
      });
    }
    for (const step of migrations.slice(from)) db.exec(step);
    db.exec(`PRAGMA user_version = ${migrations.length}`);
    db.exec("COMMIT");
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}

interface SqliteError extends Error {
  errcode: number;
}

function errorCode(error: unknown): number | undefined {
  return error instanceof Error && "errcode" in error ? Number((error as SqliteError).errcode) & 0xff : undefined;
}

export function isBusy(error: unknown): boolean {
  const code = errorCode(error);
  return code === 5 || code === 6;
}

function explainOpen(error: unknown, path: string): RotundaError {
  if (error instanceof RotundaError) return error;
  if (errorCode(error) === 8 || errorCode(error) === 14) {
    return notWritable(error, path);
  }
  // On a full disk not even the index of the log can be made, and SQLite calls that an I/O error.
  if (errorCode(error) === 10 && isFull(path)) return storageFull(error);
  return explain(error);
}

function isFull(path: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < 131_072;
  } catch {
    return false;
  }
}

function storageFull(cause: unknown): RotundaError {
  return new RotundaError("storage_full", "the disk is full: nothing more can be stored", {
    cause,
    remedy: "Free some space; nothing that was acknowledged is lost, and no restart is needed.",
  });
}

/** A driver's error as one of the table. */
export function explain(error: unknown): RotundaError {
  switch (errorCode(error)) {
    case undefined:
      return toRotundaError(error);
    case 13:
      return storageFull(error);
    case 11:
      return new RotundaError("storage_damaged", `the database is damaged: ${(error as Error).message}`, {
        cause: error,
        remedy: "rotunda doctor says what is damaged; rotunda doctor --repair takes it out. Copy the file first.",
      });
    case 26:
      return new RotundaError("storage_damaged", `the database is damaged: ${(error as Error).message}`, {
        cause: error,
        remedy: "Restore the file from a backup: its beginning is damaged, and rotunda doctor --repair cannot read it.",
      });
    default:
      return new RotundaError("storage_failed", `the database failed: ${(error as Error).message}`, { cause: error });
  }
}
