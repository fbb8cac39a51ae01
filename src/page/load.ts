/** What a view asks the server for. Invariant: an answer that comes late never replaces one that was asked for later. */
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "./api.ts";
import { useCell } from "./cell.ts";
import { changes } from "./shared.ts";

export interface Loaded<T> {
  data: T | undefined;
  problem: string;
  reload: () => void;
}

/** Asks when the key changes and, with `live`, whenever something changed anywhere. */
export function useLoad<T>(key: string, load: () => Promise<T>, live = true): Loaded<T> {
  const [data, setData] = useState<T | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [again, setAgain] = useState(0);
  const changed = useCell(changes);
  const number = useRef(0);
  useEffect(() => {
    const mine = ++number.current;
    load().then(
      (found) => {
        if (mine !== number.current) return;
        setData(found);
        setProblem("");
      },
      (error: unknown) => {
        if (mine === number.current) setProblem(words(error));
      },
    );
  }, [key, again, live ? changed : 0]);
  return { data, problem, reload: () => setAgain((count) => count + 1) };
}

export interface Action {
  busy: boolean;
  problem: string;
  run: (what: () => Promise<unknown>) => void;
}

/** Something that a person sets off: one at a time, and its failure is told. */
export function useAction(after: () => void = () => undefined): Action {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const running = useRef(false);
  return {
    busy,
    problem,
    run: (what) => {
      // A second click may come before the button is drawn as one that cannot be clicked.
      if (running.current) return;
      running.current = true;
      setBusy(true);
      setProblem("");
      what()
        .then(after)
        .catch((error: unknown) => setProblem(words(error)))
        .finally(() => {
          running.current = false;
          setBusy(false);
        });
    },
  };
}
