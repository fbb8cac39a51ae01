/**
 * News as a stream of events.
 *
 * Invariant: nobody hears of what is somebody else's; a reader who is slow gets "all" instead of a queue.
 */
import { News, type NewsEvent } from "./news.ts";
import type { Handler } from "./routes.ts";
import type { Services } from "./services.ts";
import { frame } from "./sse.ts";

const made = new WeakMap<Services, News>();

function newsOf(services: Services): News {
  const known = made.get(services) ?? new News(services.app, (text) => services.log({ level: "warn", text }));
  made.set(services, known);
  return known;
}

/** Events that wait for a reader. */
const MOST_WAITING = 200;

export const streamNews: Handler = (context) => {
  const { identity, services } = context;
  return context.stream({
    async *frames(signal) {
      let waiting: NewsEvent[] = [];
      let wake: () => void = () => undefined;
      const { ready, stop } = newsOf(services).listen((event, owner) => {
        if (owner !== null && !identity.local && identity.owner !== owner) return;
        if (waiting.length < MOST_WAITING) waiting.push(event);
        else waiting = [{ type: "all" }];
        wake();
      });
      signal.addEventListener("abort", () => wake());
      try {
        await ready;
        yield frame("hello", JSON.stringify({ type: "hello", version: services.version }));
        while (!signal.aborted) {
          const told = waiting;
          waiting = [];
          for (const event of told) yield frame(event.type, JSON.stringify(event));
          if (waiting.length > 0 || signal.aborted) continue;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        stop();
      }
    },
  });
};
