/** Dark or light. Invariant: the system's wish holds until a person chose otherwise on this machine. */
import { Cell } from "./cell.ts";

export type Appearance = "system" | "light" | "dark";

const KEY = "rotunda.appearance";

function kept(): Appearance {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

export const appearance = new Cell<Appearance>(kept());

export function applyAppearance(): void {
  const { value } = appearance;
  if (value === "system") document.documentElement.removeAttribute("data-appearance");
  else document.documentElement.setAttribute("data-appearance", value);
}

export function setAppearance(value: Appearance): void {
  appearance.set(value);
  applyAppearance();
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // It holds for as long as the page is open.
  }
}
