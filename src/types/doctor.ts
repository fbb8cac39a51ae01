/** The doctor of a database: what it finds, and what it has done about it. */

export interface DamagedResponse {
  id: string;
  why: string;
  /** Only the log (the events that a stream repeats) is damaged: its items are whole. */
  logOnly: boolean;
}

export interface Examination {
  /** Absolute path of the database file. */
  path: string;
  /** Nothing was ever stored. */
  absent: boolean;
  /** Bytes of the file, and of the write-ahead log beside it. */
  bytes: { file: number; log: number };
  responses: number;
  conversations: number;
  /** Why it cannot even be opened; null where it can. */
  unreadable: string | null;
  /** Not even its list of tables can be read: nothing of it can be salvaged. */
  lost: boolean;
  /** What the database's own check says of its pages; empty: they are in order. */
  pages: string[];
  /** Responses whose content is not what was stored. */
  damaged: DamagedResponse[];
  /** Rows of the small tables (conversations, approvals, …) that are not what can have been stored. */
  rows: string[];
  /** The first fault of the chain of the audit log; null: whole. */
  audit: string | null;
}

export interface Repair {
  /** What could be read was copied to a new file; the old one is kept here. Null: that was not needed. */
  kept: string | null;
  /** Responses that were taken out, and the folder in which all that was left of them lies. */
  quarantined: { id: string; why: string }[];
  folder: string | null;
  /** Responses whose log was put together anew out of their items. */
  logs: string[];
  /** Responses that only their own stored hash belied, and their descendants vouch for. */
  vouched: string[];
  /** Rows of the small tables that were taken out or, for conversations, emptied of their metadata. */
  rows: string[];
  /** Conversations that go on from an earlier response, because theirs was damaged. */
  moved: string[];
  /** Rows that could not be read any more, by table; about, where nobody knows how many there were. */
  lost: Record<string, number>;
}

export interface DatabaseDoctor {
  /** Changes nothing. `tell` hears how far it is, from 0 to 1, with what is being looked at. */
  examine(tell?: (share: number, what: string) => void): Promise<Examination>;
  /** Throws `storage_failed` while another process uses the database. */
  repair(tell?: (share: number, what: string) => void): Promise<Repair>;
}
