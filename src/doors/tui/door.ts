/**
 * The door of the terminal: opens the screen, and closes it whatever happens.
 *
 * Invariant: the terminal is left as it was found, in every way that this program can end but `kill -9`; the screen
 * stands before the engine is there, and what is typed meanwhile is kept.
 */
import {
  getCapabilities,
  KeybindingsManager,
  ProcessTerminal,
  setCapabilities,
  setKeybindings,
  TUI_KEYBINDINGS,
  TuiAltScreen,
} from "@earendil-works/pi-tui";
import { Control } from "./control.ts";
import type { TerminalOptions } from "./options.ts";
import { lookFor } from "./style.ts";

/** Keys that the renderer would take for itself. */
const UNUSED = [
  "pageUp",
  "pageDown",
  "halfPageUp",
  "halfPageDown",
  "lineUp",
  "lineDown",
  "previousPrompt",
  "nextPrompt",
  "search",
  "top",
  "bottom",
];

/** Resolves with the exit code when the person has left. Throws where there can be no engine, or nothing to go on from. */
export async function openTerminal(options: TerminalOptions): Promise<number> {
  // A link of a model says where it leads, as text: what can be clicked can lie.
  setCapabilities({ ...getCapabilities(), images: null, hyperlinks: false });
  setKeybindings(
    new KeybindingsManager(TUI_KEYBINDINGS, Object.fromEntries(UNUSED.map((key) => [`tui.altScreen.${key}`, []]))),
  );
  const terminal = new ProcessTerminal();
  const tui = new TuiAltScreen(terminal, false, undefined, { wheelScrollLines: 3 });
  const left = Promise.withResolvers<number>();
  const control = new Control(
    tui,
    lookFor(options.colour, process.env.TERM === "linux"),
    options,
    left.resolve,
    left.reject,
  );
  let standing = true;
  const restore = () => {
    if (!standing) return;
    standing = false;
    options.divert(undefined);
    tui.stop({ preserveScreen: true });
  };
  const onTerminate = () => left.resolve(143);
  const onInterrupt = () => control.interrupt();
  process.once("exit", restore);
  process.on("SIGINT", onInterrupt);
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, onTerminate);
  try {
    tui.setLayoutRoot(control.screen);
    tui.setFocus(control.screen);
    tui.start();
    control.open();
    return await left.promise;
  } finally {
    restore();
    const words = control.lastWords();
    control.close();
    process.off("exit", restore);
    process.off("SIGINT", onInterrupt);
    for (const signal of ["SIGTERM", "SIGHUP"] as const) process.off(signal, onTerminate);
    process.stdout.write(await words);
  }
}
