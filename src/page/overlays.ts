/** What lies over the page: the drawer of a phone, the sheet of keys. Invariant: closed until a person opens it. */
import { Cell } from "./cell.ts";

export const drawerOpen = new Cell(false);
export const helpOpen = new Cell(false);
