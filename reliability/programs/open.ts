/**
 * Opens a database, and so upgrades it; killed before or after a statement of the upgrade. Arguments: the file, the
 * number of the statement (from 1; 0: never), the moment. Prints how many statements there were.
 */
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "../../src/store/sqlite.ts";

const [, , path = "", at = "0", moment = "before"] = process.argv;
let count = 0;
const { exec } = DatabaseSync.prototype;

function step(): void {
  if (count === Number(at)) process.kill(process.pid, "SIGKILL");
}

DatabaseSync.prototype.exec = function execute(this: DatabaseSync, sql: string): void {
  // Text of our own, in which no literal holds a semicolon.
  for (const statement of sql.split(";").filter((one) => one.trim() !== "")) {
    count++;
    if (moment === "before") step();
    exec.call(this, statement);
    if (moment === "after") step();
  }
};

const store = await openSqliteStore(path);
await store.close();
process.stdout.write(`${count}\n`);
