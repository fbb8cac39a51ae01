/** A Postgres database that many stores share, as processes do. */
import { openPostgresStore, type PostgresOptions } from "../../src/store/postgres.ts";
import type { NewResponse, Store } from "../../src/types/store.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { later } from "../support.ts";
import { postgres } from "./databases.ts";
import { messageEntry, nodeOf } from "./support.ts";

export interface Many {
  url: string;
  schema: string;
  /** A store of its own on the same database, as another process has it. */
  open(options?: PostgresOptions): Promise<Store>;
}

export async function fresh(): Promise<Many> {
  const { url, schema } = (await postgres.fresh()).place as { url: string; schema: string };
  return {
    url,
    schema,
    open: async (options = {}) => {
      const store = await openPostgresStore(url, { ...options, schema });
      later(() => store.close().catch(() => undefined));
      return store;
    },
  };
}

export const responseOf = (rest: Partial<NewResponse> = {}): NewResponse => ({
  node: nodeOf(),
  input: [messageEntry("input", "go")],
  events: [{ type: "response.created", sequence_number: 0 }],
  process: newProcessName(),
  conversation: null,
  ...rest,
});
