/** Services: what the parts of this door share. One of each per door. */
import type { App } from "../../types/app.ts";
import type { McpEndpoints } from "../../types/mcp.ts";
import type { Limits } from "./limits.ts";
import type { Metrics } from "./metrics.ts";
import type { Route } from "./routes.ts";
import type { Sessions } from "./sessions.ts";
import type { Streams } from "./sse.ts";

export interface Services {
  readonly app: App;
  /** Absolute path of the directory that responses work in unless they say otherwise. */
  readonly workspace: string;
  readonly version: string;
  /** What requests of this Rotunda's own models carry. */
  readonly instance: string;
  /** The app of another directory, or of a configuration file that was named; only for whoever holds the machine. */
  appFor(workspace: string, configuration?: string): Promise<App>;
  /** What needs `admin` may be done from other machines. */
  readonly allowRemoteAdmin: boolean;
  /** The servers of MCP; undefined where there are none. Made when the first request comes. */
  readonly mcp: (() => Promise<McpEndpoints>) | undefined;
  /** All routes of this door. */
  readonly routes: readonly Route[];
  readonly limits: Limits;
  readonly streams: Streams;
  /** Of the page. */
  readonly sessions: Sessions;
  readonly metrics: Metrics;
  /** Bytes of a body at most. */
  readonly bodyLimit: number;
  /** Bytes of all bodies that are being read, and the most that they may be. */
  readonly bodies: { held: number; readonly most: number };
  /** Connections that are open. */
  connections(): number;
  /** One JSON object to the log. Secrets are replaced. */
  log(entry: Record<string, unknown>): void;
  /** One line for a request; undefined where it is not wanted. */
  readonly accessLog: ((line: string) => void) | undefined;
  /** The door is closing: what comes now is answered 503. */
  draining: boolean;
}
