/** The signals that end a server or a worker. Invariant: the first lets what runs come to its end, the second ends at once. */

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
