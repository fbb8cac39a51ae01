/** The signals that end a server, a worker or a door on stdio. Invariant: the first lets what runs come to its end, the second ends at once. */

/** Listens from the beginning: a signal that comes while the server starts is not lost. */
export function stopSignal(seconds: number): { first: Promise<void> } {
  const { promise: first, resolve } = Promise.withResolvers<void>();
  let stopping = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping) process.exit(signal === "SIGINT" ? 130 : 143);
    stopping = true;
    resolve();
    // Whatever does not end by itself is on disk, and is taken up by the next server.
    setTimeout(() => process.exit(0), seconds * 1_000).unref();
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal);
  return { first };
}

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 } as const;

/** A door on stdio, until whoever speaks to it is gone or a signal comes. Returns the exit code: 0, or the signal's. */
export async function untilClosed(door: { closed: Promise<void>; close(): void }): Promise<number> {
  let exitCode = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (exitCode !== 0) process.exit(EXIT_CODES[signal]);
      exitCode = EXIT_CODES[signal];
      door.close();
    });
  }
  await door.closed;
  return exitCode;
}
