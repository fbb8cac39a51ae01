/** Conversations as rows, on any database, and whose text a title was made from. Invariant: a name is one owner's once. */
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import type { Conversation } from "../types/response.ts";

export interface ConversationRow {
  id: string;
  owner: string;
  name: string | null;
  title: string;
  head: string | null;
  workspace: string;
  metadata: string;
  created_at: number;
  updated_at: number;
}

/** Where a conversation stands. */
export interface Place {
  head: string | null;
  /** 1: the head belongs to another conversation. */
  borrowed: number;
}

export function conversationOf(row: ConversationRow): Conversation {
  const { id, owner, name, title, head, workspace, created_at: createdAt, updated_at: updatedAt } = row;
  let metadata: JsonObject;
  try {
    metadata = JSON.parse(row.metadata) as JsonObject;
  } catch {
    throw new RotundaError("storage_damaged", `conversation ${id} is damaged in the database`, {
      remedy: "rotunda doctor --repair takes out what is damaged; everything else can be read.",
    });
  }
  return { id, owner, name, title, head, workspace, metadata, createdAt, updatedAt };
}

/** Whether a title was made from a text: it is part of it, perhaps cut. */
export function isMadeFrom(title: string, text: string): boolean {
  // Where a title was cut inside a character, half of it was stored as the replacement character.
  const kept = title.replace(/[\ufffd…\s]+$/u, "").replace(/\s+/g, " ");
  return kept !== "" && text.replace(/\s+/g, " ").includes(kept);
}

export function nameTaken(name: string): RotundaError {
  return new RotundaError("usage", `there is already a conversation named ${JSON.stringify(name)}`);
}

export function goneOn(id: string): RotundaError {
  return new RotundaError("owned_elsewhere", `conversation ${id} has gone on in the meantime`);
}
