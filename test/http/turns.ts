/**
 * How long the event loop was held, in CPU time of this thread: what other work on the machine does to a wall clock
 * says nothing about the program.
 */

/** Milliseconds that no turn may take: the promise of faults.md, and half of it for what the test itself does. */
export const LONGEST = 150;

function used(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** Watches from now on; `stop` gives the longest turn in milliseconds. */
export function watchTurns(): { stop(): number } {
  let last = used();
  let longest = 0;
  const look = () => {
    const now = used();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 5);
  return {
    stop() {
      look();
      clearInterval(timer);
      return longest;
    },
  };
}
