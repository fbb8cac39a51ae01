/**
 * Schedule: a request that is started again and again, or once at a moment to come.
 *
 * Invariant: for each moment that is due one response is started, however many servers share the database; moments that
 * passed while no server ran lead to one together.
 */
import type { Owner, RunSettings } from "./response.ts";

/** What is started. As a `RunRequest`, in the background. */
export interface ScheduledRequest {
  input: string;
  profile?: string;
  model?: string;
  /** Goes on with this conversation; absent: each time a new one. */
  conversation?: string;
  settings?: RunSettings;
  /** Absolute path. */
  workspace: string;
}

export interface Schedule {
  id: string;
  owner: Owner;
  /** Unique within its owner. */
  name: string;
  /** Five or six fields, or @daily and the like; absent: once, at `nextAt`. */
  cron?: string;
  /** IANA name; default "UTC". */
  timezone?: string;
  request: ScheduledRequest;
  enabled: boolean;
  /** It stands in a configuration file: changed there, and gone with it. */
  configured?: true;
  /** Milliseconds since the epoch; null: never again. */
  nextAt: number | null;
  /** What it has started last, and when. */
  lastResponseId: string | null;
  lastAt: number | null;
  /** Why it could not be started the last time. */
  error: string | null;
  createdAt: number;
}

/** As the configuration gives it. */
export interface ScheduleConfig {
  name: string;
  cron: string;
  timezone?: string;
  input: string;
  profile?: string;
  model?: string;
  conversation?: string;
}
