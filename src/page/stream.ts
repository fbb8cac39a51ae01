/**
 * Server-sent events over fetch: an EventSource cannot carry the proof against forgery.
 *
 * Invariant: an event is handed over once it is whole; one that was cut off is never seen.
 */
import { ask } from "./api.ts";

/** The data of each event; `onComment` hears the signs of life between them. */
export async function* readEvents(path: string, signal: AbortSignal, onLife?: () => void): AsyncGenerator<string> {
  const answer = await ask(path, { signal, headers: { accept: "text/event-stream" } });
  if (!answer.body) return;
  onLife?.();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onLife?.();
      rest += value;
      let end = rest.indexOf("\n\n");
      let from = 0;
      while (end >= 0) {
        const data = dataOf(rest.slice(from, end));
        from = end + 2;
        if (data !== "") yield data;
        end = rest.indexOf("\n\n", from);
      }
      rest = rest.slice(from);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function dataOf(frame: string): string {
  let data = "";
  for (const line of frame.split("\n")) if (line.startsWith("data:")) data += line.slice(5).trimStart();
  return data;
}

/** Resolves after so many milliseconds, or when the signal says so, or when the network is back or the tab is seen again. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      removeEventListener("online", end);
      document.removeEventListener("visibilitychange", seen);
      resolve();
    };
    const seen = () => {
      if (document.visibilityState === "visible") end();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
    addEventListener("online", end);
    document.addEventListener("visibilitychange", seen);
  });
}
