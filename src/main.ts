/**
 * The program: reads argv, hands the makers of the app to one door.
 *
 * Invariant: nothing is floating: whatever goes wrong becomes one line on stderr and an exit code.
 */
import { join } from "node:path";
import type { Makers } from "./doors/cli/app-flags.ts";
import type { App } from "./types/app.ts";
import { once } from "./util/once.ts";

export async function main(argv: readonly string[]): Promise<void> {
  process.on("unhandledRejection", (reason) => {
    const text = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    process.stderr.write(`rotunda: internal fault, please report it: ${text}\n`);
    process.exitCode = 1;
  });
  // Whoever reads our output may go away (`| head`): that is no fault, and the turn goes on to its end.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") process.exit(1);
    });
  }
  const { runCommandLine } = await import("./doors/cli/program.ts");
  const exitCode = await runCommandLine(argv.slice(2), makers);
  process.exitCode ??= exitCode;
}

/** The configuration file that an app was made with, where one was named, and when it was read. */
const sources = new WeakMap<App, { explicit: string | undefined; readAt: number }>();

/** Resolves with what ends it. */
async function reloadOnChange(app: App, log: (level: "info" | "error", text: string) => void): Promise<() => void> {
  const { watchConfig } = await import("./config/watch.ts");
  const source = sources.get(app) ?? { explicit: undefined, readAt: Date.now() };
  return watchConfig({ workspace: app.workspace, environment: process.env, ...source }, () => {
    app.reload().then(
      () => log("info", "the configuration has changed and is in force"),
      (error: Error) => log("error", `the configuration has changed, and the old one stays: ${error.message}`),
    );
  });
}

const makers: Makers = {
  async app(flags, notify, workspace, change) {
    const [{ loadConfig }, { createApp }] = await Promise.all([import("./config/load.ts"), import("./app.ts")]);
    const load = async () => {
      const loaded = await loadConfig({ workspace, environment: process.env, flags });
      return change ? { ...loaded, ...change(loaded) } : loaded;
    };
    const readAt = Date.now();
    const config = await load();
    for (const text of config.warnings) notify({ responseId: null, level: "warn", topic: "config", text });
    const queued = flags.queued === true;
    const app = await createApp({ config, workspace, environment: config.environment, load, notify, queued });
    sources.set(app, { explicit: flags.config, readAt });
    return app;
  },
  async setUp() {
    const { createSetUp } = await import("./config/set-up.ts");
    return createSetUp({ workspace: process.cwd(), environment: process.env });
  },
  async doctor() {
    const [{ createDatabaseDoctor }, { stateDirectory }] = await Promise.all([
      import("./store/doctor.ts"),
      import("./config/paths.ts"),
    ]);
    return createDatabaseDoctor(join(stateDirectory(process.env), "rotunda.db"));
  },
  async database(address, wanted) {
    const [{ openNamedDatabase }, { stateDirectory }] = await Promise.all([
      import("./app-database.ts"),
      import("./config/paths.ts"),
    ]);
    return openNamedDatabase(address, stateDirectory(process.env), wanted);
  },
  async serve(app, flags, appFor) {
    const [{ createHttpDoor }, { keepHeapSmall }] = await Promise.all([
      import("./doors/http/server.ts"),
      import("./util/server-heap.ts"),
    ]);
    keepHeapSmall();
    const { Upkeep } = await import("./doors/http/upkeep.ts");
    const mcp = once(async () => {
      const { createMcpEndpoints } = await import("./doors/mcp/endpoints.ts");
      return createMcpEndpoints({ app, version: flags.version });
    });
    const door = createHttpDoor(app, { ...flags, appFor, mcp });
    const upkeep = new Upkeep(door.services);
    let unwatch: (() => void) | undefined;
    return {
      async listen() {
        await upkeep.prepare();
        return door.listen();
      },
      open: door.open,
      signInLink: () => (door.open ? undefined : `${door.address}/#sign-in=${door.services.sessions.newCode().code}`),
      async takeUp(tell) {
        // Nobody waits for this before the first request.
        unwatch = await reloadOnChange(app, (level, text) => door.services.log({ level, text }));
        return upkeep.start(tell);
      },
      async close(options) {
        unwatch?.();
        const servers = mcp.made() ? await mcp() : undefined;
        servers?.leave();
        await Promise.all([door.close(options), upkeep.close()]);
        await servers?.close();
      },
    };
  },
  async work(app, flags, appFor, tell) {
    if (!app.queue) {
      const { RotundaError } = await import("./types/error.ts");
      throw new RotundaError("usage", "there is no queue to work on: the database is SQLite", {
        remedy: "Give servers and workers one Postgres database: database: postgres://… in rotunda.yaml",
      });
    }
    const { runQueued } = await import("./runners/run-queued.ts");
    // Until the process ends: what is allowed no longer must not run here either.
    await reloadOnChange(app, (_level, text) => tell(text));
    const { queue, store } = app;
    let draining = false;
    const { health, ...which } = flags;
    // Before any work is taken: a port that is not to be had is said at once.
    const healthAddress =
      health &&
      (await (
        await import("./doors/http/health-server.ts")
      ).openHealthServer({
        ...health,
        store,
        draining: () => draining,
      }));
    await queue.work({ ...which, run: (id, last) => runQueued({ app, appFor, tell }, id, last) });
    return {
      healthAddress,
      drain() {
        draining = true;
        return queue.drain();
      },
    };
  },
  async mcp(flags) {
    const [{ openMcpStdio }, { stateDirectory }] = await Promise.all([
      import("./doors/mcp/stdio.ts"),
      import("./config/paths.ts"),
    ]);
    return openMcpStdio({ ...flags, stateDirectory: stateDirectory(process.env) });
  },
  async terminal(flags) {
    const { openTerminal } = await import("./doors/tui/door.ts");
    return openTerminal(flags);
  },
  async acp(flags) {
    const { openAcpDoor } = await import("./doors/acp/door.ts");
    return openAcpDoor(flags);
  },
};
