/** What parts of a chat know of the chat that they stand in. Invariant: types and defaults only; the chat's view fills them. */
import { createContext, type FunctionComponent } from "preact";
import { Cell } from "./cell.ts";
import type { ChatPath } from "./chat-state.ts";
import type { Turn } from "./turn.ts";

const nothing: ChatPath = { ids: [], called: new Map(), children: new Map(), nodes: new Map() };

/** The path that is shown. */
export const PathContext = createContext<Cell<ChatPath>>(new Cell(nothing));

/** Draws the items of a turn: sub-agents stand within calls, and their items are drawn like all others. */
export const ItemsContext = createContext<FunctionComponent<{ turn: Turn }>>(() => null);
